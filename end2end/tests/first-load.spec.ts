// What the browser is sent before the table answers by itself, and what it shows before any script ran.
import { type Page } from '@playwright/test';
import { accessible, alive, another, createEnvironment, expect, signIn, test, watch } from '../fixtures';

/** Bytes over the wire, compressed: page, style sheet, scripts, wasm, icon. The specification's limit. */
const LIMIT = 350_000;

/** Far from UTC, by half hours too. */
const ZONE = 'Asia/Kolkata';

/** When the newest environment was changed: as it is, and as it is told. */
async function changed(page: Page): Promise<{ at: Date; told: string }> {
  const time = page.getByRole('row', { name: /counted/ }).locator('time');
  const [at, told] = [await time.getAttribute('datetime'), await time.getAttribute('title')];
  // Between time and AM or PM there may be one of several spaces.
  return { at: new Date(at ?? ''), told: (told ?? '').replace(/\s/g, ' ') };
}

test('the first load of the table is small, whole before any script, and complains of nothing', async ({
  page,
  browser,
  complaints,
  groundwork,
}) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'counted' });
  const { cookies } = await page.context().storageState();
  const fresh = await another(browser, true, ZONE);
  watch(fresh.page, complaints);
  await fresh.context.addCookies(cookies);
  await fresh.page.goto(`${groundwork.url}/environments`);
  await alive(fresh.page);
  const sent = await fresh.page.evaluate(() =>
    [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].map((entry) => {
      const timing = entry as PerformanceResourceTiming;
      return { name: new URL(timing.name).pathname, bytes: timing.encodedBodySize };
    }),
  );
  // Times are told in the reader's zone, once the browser has said which that is.
  const there = await changed(fresh.page);
  expect(there.told).toBe(there.at.toLocaleString('en-US', { timeZone: ZONE }).replace(/\s/g, ' '));
  await fresh.context.close();
  const total = sent.reduce((sum, { bytes }) => sum + bytes, 0);
  expect(sent.some(({ name, bytes }) => name.endsWith('.wasm') && bytes > 100_000), JSON.stringify(sent)).toBe(true);
  expect(total, JSON.stringify(sent, null, 1)).toBeLessThan(LIMIT);

  const plain = await another(browser, false);
  await plain.context.addCookies(cookies);
  await plain.page.goto(`${groundwork.url}/environments`);
  await expect(plain.page.getByRole('link', { name: 'counted' })).toBeVisible();
  const utc = await changed(plain.page);
  expect(utc.told).toBe(`${utc.at.toISOString().slice(0, 19).replace('T', ' ')} UTC`);
  await plain.context.close();
});

test('a page whose part cannot be loaded says so and offers to load it again', async ({ browser, groundwork }) => {
  const { context, page } = await another(browser);
  const complaints: string[] = [];
  watch(page, complaints);
  await signIn(page, groundwork.url);
  await alive(page);
  const notice = page.getByRole('alert').filter({ hasText: 'This page has stopped' });
  await expect(notice).toBeHidden();
  // As after an upgrade of the server: the parts that this page would fetch are not there any more.
  await page.route(/\.wasm$/, (route) => route.fulfill({ status: 404 }));
  await page.getByRole('link', { name: 'Members' }).click();
  await expect(notice).toBeVisible();
  // Of a page that nobody leaves this is a complaint.
  expect(complaints.join('\n')).toContain('panicked at app/src/pages/lazy.rs');
  await accessible(page);
  await page.unroute(/\.wasm$/);
  await notice.getByRole('link', { name: 'Load it again' }).click();
  await expect(notice).toBeHidden();
  await alive(page);
  await page.getByRole('link', { name: 'Members' }).click();
  await expect(page).toHaveURL(/\/members$/);
  await expect(page.getByRole('heading', { level: 1, name: 'Members' })).toBeVisible();
  await context.close();
});
