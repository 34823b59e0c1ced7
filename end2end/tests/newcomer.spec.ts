// What somebody tries who has never seen the console, and where the first ones hesitated.
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Locator, type Page } from '@playwright/test';
import { accessible, admin, alive, createEnvironment, environmentPage, expect, signIn, smallDisk, startSession, test } from '../fixtures';
import { Wait } from '../groundwork';

/** Seen without scrolling, wholly or at least its beginning. */
async function inView(page: Page, what: Locator): Promise<void> {
  await expect(async () => {
    const top = (await what.boundingBox())?.y ?? -1;
    expect(top).toBeGreaterThanOrEqual(0);
    expect(top).toBeLessThan(page.viewportSize()?.height ?? 0);
  }).toPass({ timeout: 15_000 });
}

test('from a starting point to a verified environment, and on to a session', async ({ page, groundwork }) => {
  const asked: string[] = [];
  page.on('dialog', async (dialog) => {
    asked.push(dialog.message());
    await dialog.accept();
  });
  await page.setViewportSize({ width: 360, height: 740 });
  await signIn(page, groundwork.url);
  await page.goto(`${groundwork.url}/environments/new`);
  await alive(page);
  await page.getByRole('link', { name: /Node web/ }).click();
  // It says what it sets, and the next step has the focus.
  await expect(page.getByText('Filled from Node web: 6 host rules, a setup script of 4 lines.')).toBeVisible();
  await expect(page.locator('#name')).toBeFocused();
  await page.keyboard.type('first steps');
  // Another starting point replaces nothing of the reader's own, so nothing is asked.
  await page.getByRole('link', { name: /Base sandbox/ }).click();
  await expect(page.getByText(/^Filled from Base sandbox: 8 host rules, no setup script\./)).toBeVisible();
  await expect(page.locator('#name')).toHaveValue('first steps');
  expect(asked).toEqual([]);
  // What was changed is asked for.
  await page.getByLabel('Setup script').fill('echo mine');
  await page.getByRole('link', { name: /Python data/ }).click();
  await expect(page.getByText(/^Filled from Python data: /)).toBeVisible();
  expect(asked).toEqual(['Replace what you changed with this starting point? The name and the description stay.']);
  await expect(page.locator('#name')).toHaveValue('first steps');

  const wait = new Wait();
  await page.getByLabel('Setup script').fill(`${wait.command} && echo ready`);
  await expect(page.getByText('1 line', { exact: true })).toBeVisible();
  await smallDisk(page);
  await page.getByRole('button', { name: 'Save and test setup' }).click();
  await environmentPage(page);
  // Far below the form on a telephone, but the run is what was asked for.
  const panel = page.getByRole('region', { name: 'Setup test' });
  await inView(page, panel.getByRole('heading', { name: 'Setup test' }));
  await expect(panel.getByText(/^line 1 of 1/)).toBeVisible({ timeout: 30_000 });
  wait.end();
  await expect(panel.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
  await inView(page, panel.locator('.run-outcome'));
  await accessible(page);
  await startSession(page, panel.getByRole('button', { name: 'Start session' }));
  // Its disk is wanted back.
  await page.getByRole('link', { name: 'Delete' }).click();
  await page.getByRole('button', { name: 'Delete' }).click();
  await expect(page).toHaveURL(/\/sessions$/);
});

test('why it failed comes into view, and a blocked host is allowed with its group', async ({ page, groundwork }) => {
  appendFileSync(
    join(groundwork.data, 'config.toml'),
    '\n[host_groups]\nmirror = ["one.mirror.example", "two.mirror.example"]\n',
  );
  await groundwork.stop();
  await groundwork.start({ GROUNDWORK_ADMIN_EMAIL: admin.email, GROUNDWORK_ADMIN_PASSWORD: admin.password });
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'blocked', script: 'echo on\nexec 3<>/dev/tcp/one.mirror.example/443' });
  const panel = page.getByRole('region', { name: 'Setup test' });
  await page.setViewportSize({ width: 1440, height: 900 });
  // As one stands who has just edited the script.
  await page.getByRole('textbox', { name: 'Setup script' }).scrollIntoViewIfNeeded();
  await page.getByRole('button', { name: 'Save and test setup' }).click();
  await expect(panel.getByText('failed on line 2')).toBeVisible({ timeout: 60_000 });
  await inView(page, panel.locator('.run-outcome'));
  await expect(panel.getByRole('button', { name: 'Allow one.mirror.example and test again' })).toBeVisible();
  const group = panel.getByRole('button', { name: 'Allow all 2 mirror hosts' });
  await expect(group).toHaveAttribute('title', 'one.mirror.example\ntwo.mirror.example');
  await accessible(page);
  // So that the test which it starts asks for no host.
  await page.getByRole('textbox', { name: 'Setup script' }).fill('echo on');
  await page.getByRole('button', { name: 'Save environment' }).click();
  await expect(page.getByText('Saved.', { exact: true })).toBeVisible();
  await group.click();
  await expect(panel.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
  const hosts = page.getByRole('textbox', { name: 'Host', exact: true });
  await expect(hosts).toHaveCount(2);
  await expect(hosts.nth(0)).toHaveValue('one.mirror.example');
  await expect(hosts.nth(1)).toHaveValue('two.mirror.example');
});

test('a size that was left out is the default one, and its preset is shown as chosen', async ({ page, groundwork }) => {
  const key = groundwork.command('admin', 'create-api-key', '--email', admin.email, '--role', 'developer');
  const answer = await fetch(`${groundwork.url}/managed-agents/v1/environments`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'no size', resources: {} }),
  });
  const { environment_id: id } = (await answer.json()) as { environment_id: string };
  await signIn(page, groundwork.url);
  await page.goto(`${groundwork.url}/environments/${id}`);
  await alive(page);
  const preset = (name: RegExp) => page.getByRole('group', { name: 'Sizes' }).getByRole('button', { name });
  await expect(preset(/^Standard/)).toHaveAttribute('aria-pressed', 'true');
  await expect(preset(/^Heavy/)).toHaveAttribute('aria-pressed', 'false');
  await expect(page.getByText('Unsaved changes')).toHaveCount(0);
});

test('no content of the table moves its columns', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'x' });
  for (const width of [1440, 1024, 800]) {
    await page.setViewportSize({ width, height: 900 });
    const lefts = async () => {
      await page.goto(`${groundwork.url}/environments`);
      await alive(page);
      return page.locator('thead th').evaluateAll((cells) => cells.map((cell) => Math.round(cell.getBoundingClientRect().left)));
    };
    const before = await lefts();
    await createEnvironment(page, groundwork.url, { name: `a rather long name of an environment ${'and more '.repeat(12)}${width}` });
    expect(await lefts(), `${width} px`).toEqual(before);
    expect(await page.evaluate(() => document.documentElement.scrollWidth), `${width} px`).toBeLessThanOrEqual(width);
  }
});
