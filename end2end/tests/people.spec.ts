import { accessible, admin, alive, another, createEnvironment, expect, signIn, test, watch } from '../fixtures';

test('a colleague with the role user looks and does not touch', async ({ page, groundwork, browser }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'to look at', script: 'echo hello' });
  const address = page.url();

  await page.goto(`${groundwork.url}/members`);
  await alive(page);
  await page.getByLabel('E-mail address').fill('eve@example.test');
  await page.getByLabel('Role', { exact: true }).selectOption('user');
  await page.getByRole('button', { name: 'Create invitation' }).click();
  const link = await page.getByText(/\/invite\//).first().textContent();
  await accessible(page);

  const { context, page: hers } = await another(browser);
  const complaints: string[] = [];
  watch(hers, complaints);
  await hers.goto(new URL(new URL(link?.trim() ?? '', groundwork.url).pathname, groundwork.url).href);
  await accessible(hers);
  await hers.getByLabel('Your name').fill('Eve');
  await hers.getByLabel('Password').fill('another long sentence');
  await hers.getByRole('button', { name: 'Join' }).click();
  await expect(hers).toHaveURL(/\/environments/);
  await expect(hers.getByRole('link', { name: 'to look at' })).toBeVisible();
  await expect(hers.getByRole('link', { name: 'Create environment' })).toHaveCount(0);
  await hers.goto(address);
  await alive(hers);
  for (const name of ['Save environment', 'Save and test setup', 'Test setup', 'Delete']) {
    await expect(hers.getByRole('button', { name, exact: true })).toHaveCount(0);
  }
  await accessible(hers);
  expect((await hers.request.get(`${groundwork.url}/members`)).status()).toBe(403);
  expect(complaints).toEqual([]);
  await context.close();
});

test('what a refused form says stands beside its field, and what was typed stays', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await page.goto(`${groundwork.url}/environments/new`);
  await alive(page);
  await page.locator('#name').fill('   ');
  await page.getByLabel('Setup script').fill('echo kept');
  await page.getByRole('button', { name: 'Create environment', exact: true }).click();
  await expect(page.locator('#name')).toHaveAttribute('aria-invalid', 'true');
  await expect(page.locator('#name')).toBeFocused();
  await expect(page.getByLabel('Setup script')).toHaveValue('echo kept');
  await accessible(page);
});

test('a wrong password says the same for a known and an unknown account', async ({ page, groundwork }) => {
  const said: string[] = [];
  for (const email of ['admin@example.test', 'nobody@example.test']) {
    await page.goto(`${groundwork.url}/sign-in`);
    await alive(page);
    await page.getByLabel('E-mail address').fill(email);
    await page.getByLabel('Password').fill('not the password');
    await page.getByRole('button', { name: 'Sign in' }).click();
    said.push((await page.getByRole('alert').innerText()).trim());
  }
  expect(said[0]).toBe(said[1]);
  await accessible(page);
});

test('a deep link survives signing in', async ({ page, browser, groundwork }) => {
  await page.goto(`${groundwork.url}/environments?query=look`);
  await expect(page).toHaveURL(/\/sign-in\?next=/);
  await page.getByLabel('E-mail address').fill('admin@example.test');
  await page.getByLabel('Password').fill('the quick brown fox 1');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page).toHaveURL(/\/environments\?query=look/);
  // With the place in the page, which never reaches the server.
  await createEnvironment(page, groundwork.url, { name: 'deep', script: 'true\ntrue' });
  const line = `${page.url()}#script-L2`;
  const fresh = await another(browser);
  await fresh.page.goto(line);
  await expect(fresh.page).toHaveURL(/\/sign-in\?next=/);
  await alive(fresh.page);
  await fresh.page.getByLabel('E-mail address').fill(admin.email);
  await fresh.page.getByLabel('Password').fill(admin.password);
  await fresh.page.getByRole('button', { name: 'Sign in' }).click();
  await expect(fresh.page).toHaveURL(line);
  await fresh.context.close();
});

test('search, delete with its dialog, and a page that is not there', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'zebra' });
  await createEnvironment(page, groundwork.url, { name: 'okapi' });
  await page.goto(`${groundwork.url}/environments`);
  await alive(page);
  await page.keyboard.press('/');
  await expect(page.getByRole('searchbox')).toBeFocused();
  await page.keyboard.type('zeb');
  await expect(page).toHaveURL(/query=zeb/);
  await expect(page.getByRole('link', { name: 'okapi' })).toHaveCount(0);
  await accessible(page);
  const row = page.getByRole('row', { name: /zebra/ });
  await row.getByRole('button', { name: /actions/i }).click();
  await page.getByRole('button', { name: 'Delete' }).or(page.getByRole('link', { name: 'Delete' })).first().click();
  const dialog = page.getByRole('dialog', { name: 'Delete environment' });
  await expect(dialog).toContainText('zebra');
  await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
  await expect(page.getByRole('link', { name: 'zebra' })).toHaveCount(0);
  const missing = await page.request.get(`${groundwork.url}/environments/00000000-0000-7000-8000-000000000000`);
  expect(missing.status()).toBe(404);
});

test('an API key is shown once and works at once', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await page.goto(`${groundwork.url}/account`);
  await alive(page);
  await accessible(page);
  await page.locator('#key-name').fill('ci');
  await page.getByRole('button', { name: 'Create key' }).click();
  const key = (await page.locator('code').filter({ hasText: /^rma_[A-Za-z0-9_-]{43}$/ }).textContent())?.trim() ?? '';
  expect(key).toMatch(/^rma_[A-Za-z0-9_-]{43}$/);
  const answer = await fetch(`${groundwork.url}/managed-agents/v1/environments`, {
    headers: { authorization: `Bearer ${key}` },
  });
  expect(answer.status).toBe(200);
  await page.reload();
  await expect(page.getByText(key)).toHaveCount(0);
});

test('dialogs are accessible and give the focus back', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'dialogs' });
  await page.goto(`${groundwork.url}/environments`);
  await alive(page);
  const actions = page.getByRole('row', { name: /dialogs/ }).getByRole('button', { name: /actions/i });
  await actions.click();
  await page.getByRole('link', { name: 'Delete', exact: true }).or(page.getByRole('menuitem', { name: 'Delete' })).first().click();
  const question = page.getByRole('dialog', { name: 'Delete environment' });
  await expect(question.getByRole('button', { name: 'Delete', exact: true })).toBeEnabled();
  await accessible(page);
  await page.keyboard.press('Escape');
  await expect(question).toBeHidden();
  const shortcuts = page.getByRole('button', { name: 'Keyboard shortcuts' });
  await shortcuts.click();
  const keys = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await expect(keys).toBeVisible();
  await accessible(page);
  // The focus stays in the dialog, however often it moves on.
  for (let step = 0; step < 4; step++) {
    await page.keyboard.press('Tab');
    const outside = await page.evaluate(() => {
      const at = document.activeElement;
      return at !== null && at !== document.body && at.closest('dialog') === null;
    });
    expect(outside).toBe(false);
  }
  await page.keyboard.press('Escape');
  await expect(keys).toBeHidden();
  await expect(shortcuts).toBeFocused();
});
