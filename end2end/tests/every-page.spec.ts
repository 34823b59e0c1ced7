// Every page in both themes, wide and narrow: no violation that axe sees, nothing wider than the screen, no complaint, and
// no text of anybody that runs.
import { accessible, alive, createEnvironment, expect, signIn, startSession, test } from '../fixtures';

const evil = '<img src=x onerror="window.hit=1"><script>window.hit=2</script>\u202egnp\u200b';

test('every page is accessible, fits a telephone, and shows any text as text', async ({ page, groundwork }) => {
  test.setTimeout(300_000);
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, {
    name: `evil ${evil}`,
    script: `printf '%s\\n' '${evil}'; printf '\\033[31mred\\033[0m \\033]0;title\\007end\\n'`,
    test: true,
  });
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
  const address = page.url();
  await page.getByLabel('Description').fill(evil);
  await page.getByRole('button', { name: 'Save environment' }).click();
  await expect(page.getByText('Saved.')).toBeVisible();
  const run = await page.locator('a[href*="/runs/"]:not([href$="log.txt"])').first().getAttribute('href');
  await startSession(page, page.getByRole('button', { name: 'Start session' }).first());
  await expect(page.getByText('Running', { exact: true })).toBeVisible({ timeout: 60_000 });
  const session = new URL(page.url()).pathname;
  for (const path of [
    '/environments',
    '/environments/new',
    new URL(address).pathname,
    `${new URL(address).pathname}/history?compare=1`,
    `${new URL(address).pathname}/delete`,
    run ?? '',
    '/sessions',
    session,
    `${session}/delete`,
    '/members',
    '/api-keys',
    '/workers',
    '/audit',
    '/account',
    '/nothing-here',
  ]) {
    await page.setViewportSize({ width: 1440, height: 900 });
    const answer = await page.goto(`${groundwork.url}${path}`);
    expect(answer?.status(), path).toBe(path === '/nothing-here' ? 404 : 200);
    await alive(page);
    await accessible(page);
    expect(await page.locator('main').innerText(), path).not.toMatch(/[\u202e\u200b]/);
    expect(await page.evaluate(() => (window as unknown as { hit?: number }).hit), path).toBeUndefined();
    if (process.env.GROUNDWORK_SCREENS) {
      const name = path.replace(/[^a-z]+/g, '_').slice(0, 40);
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        for (const width of [1440, 360]) {
          await page.setViewportSize({ width, height: 900 });
          await page.screenshot({ path: `${process.env.GROUNDWORK_SCREENS}/${name}-${colorScheme}-${width}.png`, fullPage: true });
        }
      }
    }
  }
  for (const path of ['/environments', '/sessions', session]) {
    await page.goto(`${groundwork.url}${path}`);
    await expect(page.getByText('⟨U+202E⟩gnp⟨U+200B⟩').filter({ visible: true }).first()).toBeVisible();
  }
  await page.goto(`${groundwork.url}${session}/delete`);
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await expect(page).toHaveURL(/\/sessions$/);
});
