// What the browser is sent before the table answers by itself, and what it shows before any script ran.
import { alive, another, createEnvironment, expect, signIn, test } from '../fixtures';

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
