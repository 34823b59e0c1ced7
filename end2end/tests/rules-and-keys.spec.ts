// The rule editor, the keyboard, and leaving with unsaved changes.
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { accessible, admin, alive, createEnvironment, environmentPage, expect, signIn, test } from '../fixtures';
import { Groundwork } from '../groundwork';

test('rules are pasted, reordered, checked, and tell which of them decides', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await page.goto(`${groundwork.url}/environments/new`);
  await alive(page);
  await page.getByText('Selected hosts').click();
  await page.getByRole('button', { name: 'Add rule' }).click();
  const hosts = page.getByRole('textbox', { name: 'Host', exact: true });
  await hosts.first().focus();
  // A list from anywhere becomes rows.
  await hosts.first().evaluate((input, text) => {
    const data = new DataTransfer();
    data.setData('text/plain', text);
    input.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
  }, 'example.com\n*.example.com\ndeny ads.example.com');
  await expect(hosts).toHaveCount(3);
  const tester = page.getByRole('textbox', { name: 'Test a host against the rules' });
  await tester.fill('ads.example.com');
  await expect(page.getByText('ads.example.com is allowed by rule 2, *.example.com.')).toBeVisible();
  await page.locator('.rule-grip').nth(2).dragTo(page.locator('.rule-row').nth(0));
  await expect(hosts.first()).toHaveValue('ads.example.com');
  await expect(page.getByText('ads.example.com is blocked by rule 1, ads.example.com.')).toBeVisible();
  await page.getByRole('button', { name: 'Move down' }).first().click();
  await expect(hosts.nth(1)).toHaveValue('ads.example.com');
  await hosts.nth(2).fill('https://example.com/path');
  await expect(page.getByText('Give the host alone, without https://: example.com.')).toBeVisible();
  // Beyond ASCII the browser translates.
  await hosts.nth(2).fill('bücher.example');
  await expect(hosts.nth(2)).not.toHaveAttribute('aria-invalid', 'true');
  await tester.fill('xn--bcher-kva.example');
  await expect(page.getByText('xn--bcher-kva.example is allowed by rule 3, bücher.example.')).toBeVisible();
  await page.getByRole('button', { name: 'github' }).click();
  await expect(hosts).not.toHaveCount(3);
  await accessible(page);
});

test('moving and removing rows leaves the keyboard where it was', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await page.goto(`${groundwork.url}/environments/new`);
  await alive(page);
  await page.getByText('Selected hosts').click();
  const rules = page.getByRole('list', { name: 'Rules' });
  const hosts = rules.getByRole('textbox', { name: 'Host', exact: true });
  const add = page.getByRole('button', { name: 'Add rule' });
  for (const [at, host] of ['a.example', 'b.example', 'c.example'].entries()) {
    await add.click();
    await hosts.nth(at).fill(host);
  }
  const row = (at: number) => rules.getByRole('listitem').nth(at);
  const down = (at: number) => row(at).getByRole('button', { name: 'Move down' });
  await down(0).focus();
  for (const at of [1, 2]) {
    await page.keyboard.press('Enter');
    await expect(hosts.nth(at)).toHaveValue('a.example');
    await expect(down(at)).toBeFocused();
  }
  await row(2).getByRole('button', { name: 'Move up' }).focus();
  await page.keyboard.press('Enter');
  await expect(hosts.nth(1)).toHaveValue('a.example');
  await expect(row(1).getByRole('button', { name: 'Move up' })).toBeFocused();
  // What follows takes the place of what was removed; after the last one there is the button that adds.
  await row(1).getByRole('button', { name: 'Remove' }).focus();
  await page.keyboard.press('Enter');
  await expect(hosts).toHaveCount(2);
  await expect(hosts.nth(1)).toHaveValue('c.example');
  await expect(row(1).getByRole('button', { name: 'Remove' })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(hosts).toHaveCount(1);
  await expect(add).toBeFocused();
  // Mounts likewise.
  await page.getByRole('heading', { name: 'Mounts' }).click();
  const mounts = page.getByRole('list', { name: 'Mounts' }).getByRole('listitem');
  const addMount = page.getByRole('button', { name: 'Add mount' });
  await addMount.click();
  await addMount.click();
  await mounts.nth(0).getByRole('button', { name: 'Remove' }).focus();
  await page.keyboard.press('Enter');
  await expect(mounts).toHaveCount(1);
  await expect(mounts.nth(0).getByRole('button', { name: 'Remove' })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(mounts).toHaveCount(0);
  await expect(addMount).toBeFocused();
});

test('a size that no machine offers is refused at its fields', async ({ page }) => {
  const groundwork = new Groundwork();
  try {
    appendFileSync(join(groundwork.data, 'config.toml'), '\n[compute]\ncpu_milli = 4000\nmemory_mib = 16384\n');
    await groundwork.start({ GROUNDWORK_ADMIN_EMAIL: admin.email, GROUNDWORK_ADMIN_PASSWORD: admin.password });
    await signIn(page, groundwork.url);
    await page.goto(`${groundwork.url}/environments/new`);
    await alive(page);
    const cpu = page.getByLabel('vCPU', { exact: true });
    await page.locator('#name').fill('too large');
    await cpu.fill('8');
    await page.getByRole('button', { name: 'Create environment', exact: true }).click();
    await expect(cpu).toBeFocused();
    await expect(cpu).toHaveAttribute('aria-invalid', 'true');
    await expect(cpu).toHaveAccessibleDescription(/No machine offers 8 vCPU and 4 GiB together\./);
    await expect(page.getByLabel('Memory (GiB)')).toHaveAttribute('aria-invalid', 'true');
    await accessible(page);
  } finally {
    await groundwork.remove();
  }
});

test('an export moves to the variables, where sessions have it too', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await page.goto(`${groundwork.url}/environments/new`);
  await alive(page);
  await page.locator('#name').fill('exports');
  const script = page.getByLabel('Setup script');
  await script.fill('echo one\nexport GREETING="good day"\nexport NOW=$(date)\necho two');
  // Only what is the same wherever it stands.
  const move = page.getByRole('button', { name: 'Move to variables' });
  await expect(move).toHaveCount(1);
  await move.click();
  await expect(script).toHaveValue('echo one\nexport NOW=$(date)\necho two');
  await expect(move).toHaveCount(0);
  await expect(page.getByText('GREETING now stands under Environment variables')).toBeVisible();
  await expect(page.locator('#env_vars')).toHaveValue('GREETING=good day\n');
  await page.getByRole('button', { name: 'Create environment', exact: true }).click();
  await environmentPage(page);
  await page.reload();
  await expect(page.locator('#env_vars')).toHaveValue('GREETING=good day\n');
});

test('the keyboard searches, creates and explains itself', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'keyboard' });
  await page.goto(`${groundwork.url}/environments`);
  await alive(page);
  await page.keyboard.press('?');
  const dialog = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await expect(dialog).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  await page.keyboard.press('/');
  await expect(page.getByRole('searchbox')).toBeFocused();
  await page.keyboard.type('keyb');
  await expect(page).toHaveURL(/\?query=keyb$/);
  await page.getByRole('link', { name: 'Name' }).click();
  await expect(page).toHaveURL(/sort=name/);
  await expect(page.getByRole('columnheader', { name: 'Name' })).toHaveAttribute('aria-sort', 'ascending');
  await page.locator('h1').click();
  await page.keyboard.press('n');
  await expect(page).toHaveURL(/\/environments\/new$/);
  // From every page, not from the table alone.
  for (const [key, address] of [
    ['n', /\/environments\/new$/],
    ['e', /\/environments$/],
    ['/', /\/environments#search$/],
  ] as const) {
    await page.goto(`${groundwork.url}/members`);
    await alive(page);
    await page.keyboard.press(key);
    await expect(page).toHaveURL(address);
  }
  await expect(page.getByRole('searchbox')).toBeFocused();
});

test('whoever does not want single keys turns them off, and on again', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await page.goto(`${groundwork.url}/account`);
  await alive(page);
  const are = page.getByRole('checkbox', { name: 'Single keys are shortcuts in this browser' });
  const dialog = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await expect(are).toBeChecked();
  await accessible(page);
  await are.uncheck();
  await page.locator('h1').click();
  // As kept, too, and on every page.
  for (const path of ['', '/members', '/environments']) {
    if (path) {
      await page.goto(groundwork.url + path);
      await alive(page);
    }
    for (const key of ['n', 'e', '/', '?']) await page.keyboard.press(key);
    await page.getByRole('button', { name: 'Keyboard shortcuts' }).click();
    await expect(dialog).toContainText('on the page of your account');
    await expect(page).toHaveURL(`${groundwork.url}${path || '/account'}`);
    await page.keyboard.press('Escape');
    await expect(dialog).toBeHidden();
  }
  await page.goto(`${groundwork.url}/account`);
  await alive(page);
  await expect(are).not.toBeChecked();
  await are.check();
  await page.locator('h1').click();
  await page.keyboard.press('n');
  await expect(page).toHaveURL(/\/environments\/new$/);
});

test('a page whose piece is still on its way does not say that it answers', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  let arrives = () => {};
  const held = new Promise<void>((resolve) => (arrives = resolve));
  let asked = () => {};
  const wanted = new Promise<void>((resolve) => (asked = resolve));
  await page.route(/split_administration_pages[^/]*\.wasm/, async (route) => {
    asked();
    await held;
    await route.continue();
  });
  await page.goto(`${groundwork.url}/members`, { waitUntil: 'commit' });
  await wanted;
  // A turn of the browser's own later, what was queued before the piece was asked for has run.
  await page.evaluate(() => new Promise((turned) => setTimeout(turned, 0)));
  await expect(page.getByRole('heading', { name: 'Members', level: 1 })).toBeVisible();
  await expect(page.locator('body[data-alive]')).toHaveCount(0);
  arrives();
  await alive(page);
  await page.keyboard.press('n');
  await expect(page).toHaveURL(/\/environments\/new$/);
});

test('leaving with unsaved changes asks', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'unsaved' });
  const address = page.url();
  await page.getByLabel('Description').fill('not saved');
  const asks = async (leave: () => Promise<unknown>, answer: 'accept' | 'dismiss') => {
    const asked = page.waitForEvent('dialog');
    const left = leave();
    await (await asked)[answer]();
    await left;
  };
  const stays = async (leave: () => Promise<unknown>) => {
    await asks(leave, 'dismiss');
    await expect(page).toHaveURL(address);
    await expect(page.getByLabel('Description')).toHaveValue('not saved');
  };
  const members = page.getByRole('link', { name: 'Members' });
  await stays(() => members.click());
  // The other ways to leave: keys, the browser's way back, a session that is started.
  await page.locator('h1').click();
  for (const key of ['e', 'n', '/']) await stays(() => page.keyboard.press(key));
  for (let time = 0; time < 2; time++) await stays(() => page.evaluate(() => setTimeout(() => history.back())));
  await stays(() => page.getByRole('button', { name: 'Start session' }).click());
  await page.getByRole('link', { name: 'History' }).focus();
  await asks(() => page.evaluate(() => setTimeout(() => history.back())), 'accept');
  await expect(page).not.toHaveURL(address);
  await expect(page.getByRole('link', { name: 'History', exact: true })).toHaveCount(0);
  await page.goForward();
  await expect(page).toHaveURL(address);
  await environmentPage(page);
  await page.getByLabel('Description').fill('not saved');
  await asks(() => members.click(), 'accept');
  await expect(page).toHaveURL(/\/members$/);
});
