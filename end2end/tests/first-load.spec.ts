// What the browser is sent before the table answers by itself, and what it shows before any script ran.
import { accessible, alive, another, createEnvironment, expect, signIn, test } from '../fixtures';

/** Bytes over the wire, compressed: page, style sheet, scripts, wasm, icon. The specification's limit. */
const LIMIT = 350_000;

test('the first load of the table is small, whole before any script, and complains of nothing', async ({ page, browser, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'counted' });
  const { cookies } = await page.context().storageState();
  const fresh = await another(browser);
  await fresh.context.addCookies(cookies);
  await fresh.page.goto(`${groundwork.url}/environments`);
  await alive(fresh.page);
  const sent = await fresh.page.evaluate(() =>
    [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].map((entry) => {
      const timing = entry as PerformanceResourceTiming;
      return { name: new URL(timing.name).pathname, bytes: timing.encodedBodySize };
    }),
  );
  await fresh.context.close();
  const total = sent.reduce((sum, { bytes }) => sum + bytes, 0);
  expect(sent.some(({ name, bytes }) => name.endsWith('.wasm') && bytes > 100_000), JSON.stringify(sent)).toBe(true);
  expect(total, JSON.stringify(sent, null, 1)).toBeLessThan(LIMIT);

  const plain = await another(browser, false);
  await plain.context.addCookies(cookies);
  await plain.page.goto(`${groundwork.url}/environments`);
  await expect(plain.page.getByRole('link', { name: 'counted' })).toBeVisible();
  await plain.context.close();
});

test('a page whose part cannot be loaded says so and offers to load it again', async ({ browser, groundwork }) => {
  const { context, page } = await another(browser);
  await signIn(page, groundwork.url);
  await alive(page);
  const notice = page.getByRole('alert').filter({ hasText: 'This page has stopped' });
  await expect(notice).toBeHidden();
  // As after an upgrade of the server: the parts that this page would fetch are not there any more.
  await page.route(/\.wasm$/, (route) => route.fulfill({ status: 404 }));
  await page.getByRole('link', { name: 'Members' }).click();
  await expect(notice).toBeVisible();
  await accessible(page);
  await page.unroute(/\.wasm$/);
  await notice.getByRole('link', { name: 'Load it again' }).click();
  await alive(page);
  await expect(notice).toBeHidden();
  await page.getByRole('link', { name: 'Members' }).click();
  await expect(page).toHaveURL(/\/members$/);
  await expect(page.getByRole('heading', { level: 1, name: 'Members' })).toBeVisible();
  await context.close();
});
