import { another, expect, sent, smallDisk, test } from '../fixtures';

// Everything that changes data is a form of its own: these stories run with scripting off.
test('sign in, create, test, read the log, cancel, delete', async ({ browser, groundwork }) => {
  const { context, page } = await another(browser, false);
  await page.goto(`${groundwork.url}/sign-in`);
  await page.getByLabel('E-mail address').fill('admin@example.test');
  await page.getByLabel('Password').fill('wrong, and long enough');
  await sent(page, page.getByRole('button', { name: 'Sign in' }));
  await expect(page.getByRole('alert')).toBeVisible();
  await page.getByLabel('E-mail address').fill('admin@example.test');
  await page.getByLabel('Password').fill('the quick brown fox 1');
  await sent(page, page.getByRole('button', { name: 'Sign in' }));
  await expect(page).toHaveURL(/\/environments/);

  // A refused save keeps what was typed.
  await page.goto(`${groundwork.url}/environments/new`);
  await page.locator('#name').fill('scriptless');
  await page.getByLabel('Setup script').fill('echo plain');
  await smallDisk(page);
  await page.getByLabel('Timeout (seconds)').fill('5');
  await sent(page, page.getByRole('button', { name: 'Create environment', exact: true }));
  await expect(page.getByLabel('Timeout (seconds)')).toHaveAttribute('aria-invalid', 'true');
  await expect(page.getByLabel('Setup script')).toHaveValue(/echo plain/);
  await page.getByLabel('Timeout (seconds)').fill('');
  await sent(page, page.getByRole('button', { name: 'Save and test setup' }));
  await expect(page).toHaveURL(/\/environments\/[0-9a-f-]{36}/);
  await expect(async () => {
    await page.reload();
    await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 1_000 });
  }).toPass({ timeout: 60_000 });
  await expect(page.getByText('plain', { exact: true }).last()).toBeVisible();

  await page.getByLabel('Setup script').fill('echo again\nsleep 300');
  await sent(page, page.getByRole('button', { name: 'Save and test setup' }));
  await expect(page.getByRole('button', { name: 'Cancel run' })).toBeVisible();
  await sent(page, page.getByRole('button', { name: 'Cancel run' }));
  await expect(async () => {
    await page.reload();
    await expect(page.getByText('Cancelled.').first()).toBeVisible({ timeout: 1_000 });
  }).toPass({ timeout: 30_000 });

  await page.goto(`${page.url().replace(/[?#].*/, '')}/delete`);
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await expect(page).toHaveURL(/\/environments$/);
  await expect(page.getByRole('link', { name: 'scriptless', exact: true })).toHaveCount(0);
  await context.close();
});

test('members, history and signing out', async ({ browser, groundwork }) => {
  const { context, page } = await another(browser, false);
  await page.goto(`${groundwork.url}/sign-in`);
  await page.getByLabel('E-mail address').fill('admin@example.test');
  await page.getByLabel('Password').fill('the quick brown fox 1');
  await sent(page, page.getByRole('button', { name: 'Sign in' }));

  await page.goto(`${groundwork.url}/members`);
  await page.getByLabel('E-mail address').fill('noscript@example.test');
  await page.getByRole('button', { name: 'Create invitation' }).click();
  await expect(page.getByText(/^\/invite\/\S+$/)).toBeVisible();
  await expect(page.getByRole('row', { name: /noscript@example\.test/ })).toBeVisible();
  await page.reload();
  await expect(page.getByText(/^\/invite\/\S+$/)).toHaveCount(0);

  await page.goto(`${groundwork.url}/environments/new`);
  await page.locator('#name').fill('before');
  await sent(page, page.getByRole('button', { name: 'Create environment', exact: true }));
  await page.locator('#name').fill('after');
  await sent(page, page.getByRole('button', { name: 'Save environment' }));
  await expect(page.getByRole('heading', { name: 'after', level: 1 })).toBeVisible();
  await page.getByRole('link', { name: 'History' }).click();
  await page.getByRole('link', { name: /Compare with today.*revision 1\)$/ }).click();
  await page.getByRole('button', { name: 'Restore revision 1' }).click();
  await expect(page.getByRole('heading', { name: 'before', level: 1 })).toBeVisible();

  await page.goto(`${groundwork.url}/environments`);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await expect(page).toHaveURL(/\/sign-in/);
  await context.close();
});

test('a new key is shown once after a plain form', async ({ browser, groundwork }) => {
  const { context, page } = await another(browser, false);
  await page.goto(`${groundwork.url}/sign-in`);
  await page.getByLabel('E-mail address').fill('admin@example.test');
  await page.getByLabel('Password').fill('the quick brown fox 1');
  await sent(page, page.getByRole('button', { name: 'Sign in' }));
  await page.goto(`${groundwork.url}/account`);
  await page.getByLabel('Name', { exact: true }).fill('without scripting');
  await page.getByRole('button', { name: 'Create key' }).click();
  await expect(page.getByText('Copy the key now: it is not shown again.')).toBeVisible();
  await expect(page.getByRole('row', { name: /without scripting/ })).toBeVisible();
  await context.close();
});
