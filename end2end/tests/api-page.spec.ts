// The page about the API: the console's frame, commands for the reader's own environment that work when pasted, both themes.
import { execFileSync } from 'node:child_process';
import { accessible, alive, another, createEnvironment, expect, signIn, test } from '../fixtures';

test('the API page gives commands for the reader\'s own environment, in the console\'s frame', async ({ page, context, groundwork }) => {
  test.setTimeout(240_000);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.setViewportSize({ width: 1440, height: 900 });
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'first' });
  await createEnvironment(page, groundwork.url, { name: 'second' });
  const second = new URL(page.url()).pathname.split('/')[2];
  const sidebar = page.getByRole('complementary', { name: 'Sidebar' });
  const ways = await sidebar.getByRole('link').allInnerTexts();
  await sidebar.getByRole('link', { name: 'API', exact: true }).click();
  await expect(page.getByRole('heading', { name: 'API', level: 1 })).toBeVisible();
  await alive(page);
  expect(await sidebar.getByRole('link').allInnerTexts()).toEqual(ways);
  await expect(sidebar.getByRole('link', { name: 'API', exact: true })).toHaveAttribute('aria-current', 'page');

  await page.getByLabel('Environment in the examples').selectOption({ label: 'second' });
  await expect(page).toHaveURL(new RegExp(`environment_id=${second}`));
  await alive(page);
  const call = page.locator('#managedAgentsGetEnvironment');
  await call.locator('summary').first().click();
  await call.getByRole('button', { name: /^Copy/ }).click();
  await expect(call.getByRole('button', { name: /^Copy/ })).toHaveText('Copied');
  const command = await page.evaluate(() => navigator.clipboard.readText());
  expect(command).toContain(`${groundwork.url}/managed-agents/v1/environments/${second}`);
  const key = groundwork.command('admin', 'create-api-key', '--email', 'admin@example.test', '--role', 'user');
  const answer = execFileSync('bash', ['-c', command], { env: { ...process.env, GROUNDWORK_API_KEY: key }, encoding: 'utf8' });
  expect(JSON.parse(answer)).toMatchObject({ environment_id: second, name: 'second' });

  await page.keyboard.press('/');
  await page.keyboard.type('cancel');
  await expect(page.getByText('Cancel a setup run')).toBeVisible();
  await expect(page.getByText('List members')).toBeHidden();
  await page.getByRole('searchbox', { name: 'Search' }).fill('no such call');
  await expect(page.getByText('No call matches.')).toBeVisible();

  // Calls of each method, opened. The whole page would keep axe busy for minutes, and each call is made like these.
  for (const query of ['secret', 'updateenvironment', 'network-policy']) {
    await page.goto(`${groundwork.url}/api?query=${query}`);
    await alive(page);
    for (const summary of await page.locator('details.call > summary').all()) await summary.click();
    await accessible(page);
  }
  await page.goto(`${groundwork.url}/api`);
  await page.setViewportSize({ width: 360, height: 740 });
  for (const summary of await page.locator('details.call > summary').all()) await summary.click();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
  await page.goto(`${groundwork.url}/api`);
  await alive(page);
  await page.getByRole('button', { name: 'Menu' }).click();
  await expect(sidebar.getByRole('link', { name: 'Sessions' })).toBeVisible();
  await page.keyboard.press('Escape');
  if (process.env.GROUNDWORK_SCREENS) {
    await page.goto(`${groundwork.url}/api#managedAgentsCreateEnvironment`);
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      for (const width of [1440, 360]) {
        await page.setViewportSize({ width, height: 900 });
        await page.screenshot({ path: `${process.env.GROUNDWORK_SCREENS}/api-${colorScheme}-${width}.png` });
      }
    }
  }
  // The choice of a scheme is a plain form here; it comes back to this page.
  await page.setViewportSize({ width: 1440, height: 900 });
  await sidebar.getByRole('button', { name: 'Dark' }).click();
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
  await expect(page.getByRole('heading', { name: 'API', level: 1 })).toBeVisible();
  await sidebar.getByRole('link', { name: 'Environments' }).click();
  await expect(page).toHaveURL(/\/environments$/);
});

test('without scripting the API page can be searched and read', async ({ browser, groundwork }) => {
  const { context, page } = await another(browser, false);
  await page.goto(`${groundwork.url}/api`);
  await expect(page).toHaveURL(/\/sign-in\?next=%2Fapi/);
  await page.getByLabel('E-mail address').fill('admin@example.test');
  await page.getByLabel('Password').fill('the quick brown fox 1');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page).toHaveURL(/\/api$/);
  await page.getByRole('searchbox', { name: 'Search' }).fill('cancel');
  await page.getByRole('button', { name: 'Show' }).click();
  await expect(page.getByText('Cancel a setup run')).toBeVisible();
  await expect(page.getByText('List members')).toHaveCount(0);
  await context.close();
});
