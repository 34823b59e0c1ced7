import { randomUUID } from 'node:crypto';
import { accessible, admin, alive, createEnvironment, expect, signIn, test } from '../fixtures';
import { Wait } from '../groundwork';

test.beforeEach(async ({ page, groundwork }) => signIn(page, groundwork.url));

const panel = 'Setup test';

test('lines appear while the script runs, and the run is verified', async ({ page, groundwork }) => {
  const wait = new Wait();
  await createEnvironment(page, groundwork.url, {
    name: 'live',
    script: `echo first\n${wait.command}\necho last`,
    test: true,
  });
  const log = page.getByRole('region', { name: panel });
  await expect(log.getByText('first', { exact: true }).last()).toBeVisible({ timeout: 30_000 });
  await expect(page.getByText('Setup verified.')).toHaveCount(0);
  wait.end();
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
  await expect(log.getByText('last', { exact: true }).last()).toBeVisible();
  await accessible(page);
  // The run has a page of its own, whose log survives a reload.
  await log.getByRole('link', { name: 'Open its page' }).click();
  await expect(page).toHaveURL(/\/runs\//);
  await page.reload();
  await expect(page.getByText('last', { exact: true }).last()).toBeVisible();
  await alive(page);
  await accessible(page);
});

test('a failing script names its line, its command and the fix', async ({ page, groundwork }) => {
  await createEnvironment(page, groundwork.url, {
    name: 'failing',
    script: 'echo fine\n\n# the next one is not there\nfrobnicate --hard\necho never',
    test: true,
  });
  const result = page.getByRole('region', { name: panel });
  await expect(result.getByText('failed on line 4')).toBeVisible({ timeout: 60_000 });
  await expect(result.getByLabel('Failing command')).toHaveText('frobnicate --hard');
  await expect(result.getByText('Exit code 127').first()).toBeVisible();
  await expect(result.getByText(/frobnicate.*(install|path)/i).first()).toBeVisible();
  await expect(result.getByText('never', { exact: true })).toHaveCount(0);
  await accessible(page);
  await page.goto(`${groundwork.url}/environments`);
  await expect(page.getByRole('row', { name: /failing/ }).getByText('Failed')).toBeVisible();
});

test('cancelling ends the run and records nothing', async ({ page, groundwork }) => {
  await createEnvironment(page, groundwork.url, {
    name: 'cancelled',
    script: "trap '' TERM\necho waiting\nsleep 600",
    test: true,
  });
  const result = page.getByRole('region', { name: panel });
  await expect(result.getByText('waiting', { exact: true }).last()).toBeVisible({ timeout: 30_000 });
  await result.getByRole('button', { name: 'Cancel run' }).click();
  await expect(result.getByText('Cancelled.').first()).toBeVisible({ timeout: 30_000 });
  await page.goto(`${groundwork.url}/environments`);
  await expect(page.getByRole('row', { name: /cancelled/ }).getByText('Not tested')).toBeVisible();
});

test('an edit makes the verdict stale, and undoing it makes it current again', async ({ page, groundwork }) => {
  await createEnvironment(page, groundwork.url, { name: 'edited', script: 'echo v1', test: true });
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
  const address = page.url();
  const badge = async (text: string) => {
    await page.goto(`${groundwork.url}/environments`);
    await expect(page.getByRole('row', { name: /edited/ }).getByText(text)).toBeVisible();
    await page.goto(address);
    await alive(page);
  };
  await badge('Verified');
  await page.getByRole('textbox', { name: 'Setup script' }).fill('echo v2');
  await page.getByRole('button', { name: 'Save environment' }).click();
  await expect(page.getByText('The verdict is about an earlier configuration.')).toBeVisible();
  await badge('Stale');
  await page.getByRole('textbox', { name: 'Setup script' }).fill('echo v1');
  await page.getByRole('button', { name: 'Save environment' }).click();
  await expect(page.getByText('The verdict is about an earlier configuration.')).toBeHidden();
  await badge('Verified');
});

test('the line that failed is gone to without a question, and a link in another tab asks none either', async ({ page, groundwork }) => {
  await createEnvironment(page, groundwork.url, { name: 'line', script: 'true\nfalse', test: true });
  const result = page.getByRole('region', { name: panel });
  await expect(result.getByText('failed on line 2')).toBeVisible({ timeout: 60_000 });
  const asked: string[] = [];
  page.on('dialog', async (dialog) => {
    asked.push(dialog.message());
    await dialog.dismiss();
  });
  await page.getByLabel('Description').fill('not saved');
  await result.getByRole('link', { name: 'Go to line 2' }).click();
  const script = page.getByRole('textbox', { name: 'Setup script' });
  await expect(script).toBeFocused();
  expect(await script.evaluate((area: HTMLTextAreaElement) => area.value.slice(area.selectionStart, area.selectionEnd))).toBe('false');
  const opened = page.context().waitForEvent('page');
  await page.getByRole('link', { name: 'Members' }).click({ modifiers: ['Control'] });
  await (await opened).close();
  const saved = page.waitForEvent('download');
  await result.locator('a[download]').click();
  await (await saved).cancel();
  expect(asked).toEqual([]);
  await expect(page.getByLabel('Description')).toHaveValue('not saved');
  // The page itself is still asked for.
  await page.getByRole('link', { name: 'History', exact: true }).click();
  await expect.poll(() => asked).toEqual(['Leave without saving your changes?']);
});

/** Calls the API as a developer. */
async function api(groundwork: { url: string; command: (...args: string[]) => string }) {
  const key = groundwork.command('admin', 'create-api-key', '--email', admin.email, '--role', 'developer');
  return async (path: string, body?: unknown): Promise<Record<string, string>> => {
    const answer = await fetch(`${groundwork.url}/managed-agents/v1/environments${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': randomUUID() },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    expect(answer.ok, await answer.clone().text()).toBe(true);
    return (await answer.json()) as Record<string, string>;
  };
}

test('a test is not offered while one is in flight, and why one did not start goes with the next run', async ({
  page,
  groundwork,
}) => {
  const wait = new Wait();
  await createEnvironment(page, groundwork.url, { name: 'busy', script: `echo on\n${wait.command}` });
  const id = new URL(page.url()).pathname.split('/').pop();
  const both = page.getByRole('button', { name: 'Save and test setup' });
  await expect(both).toBeEnabled();
  // Somebody else starts one: the page does not know.
  await (await api(groundwork))(`/${id}/setup-runs`);
  await both.click();
  const told = page.getByRole('alert').filter({ hasText: 'Saved, but the setup test did not start.' });
  await expect(told).toBeVisible();
  await expect(both).toBeDisabled();
  await expect(both).toHaveAccessibleDescription('A setup run is in flight: wait for it or cancel it');
  const result = page.getByRole('region', { name: panel });
  await expect(result.getByText(/^line 2 of 2/)).toBeVisible({ timeout: 30_000 });
  await accessible(page);
  wait.end();
  await expect(result.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
  await expect(both).toBeEnabled();
  await expect(told).toBeVisible();
  await result.getByRole('button', { name: 'Test setup' }).click();
  await expect(told).toHaveCount(0);
  await result.getByRole('button', { name: 'Cancel run' }).click();
  await expect(result.getByText('Cancelled.').first()).toBeVisible({ timeout: 30_000 });
});

test('a host that is allowed while no test can start is said to be allowed', async ({ page, groundwork }) => {
  await createEnvironment(page, groundwork.url, {
    name: 'allowed',
    script: 'exec 3<>/dev/tcp/blocked.example/443',
    test: true,
  });
  const result = page.getByRole('region', { name: panel });
  const allow = result.getByRole('button', { name: 'Allow blocked.example and test again' });
  await expect(allow).toBeVisible({ timeout: 60_000 });
  // As many runs as there may be at once.
  const call = await api(groundwork);
  const runs: string[] = [];
  for (const name of ['one', 'two', 'three', 'four']) {
    const { environment_id: id } = await call('', { name, setup: { script: 'sleep 600' }, pvc_size_gi: 1 });
    const { setup_run_id: run } = await call(`/${id}/setup-runs`);
    runs.push(`/${id}/setup-runs/${run}/cancel`);
  }
  await allow.click();
  await expect(result.getByRole('alert')).toContainText('blocked.example is allowed now, but the setup test did not start.');
  // The form and the verdict know.
  await expect(page.getByRole('textbox', { name: 'Host', exact: true })).toHaveValue('blocked.example');
  await expect(page.getByText('The verdict is about an earlier configuration.')).toBeVisible();
  for (const cancel of runs) await call(cancel);
});

test('a killed server: the run is tried again after the start, or ends with its code, and nothing is left', async ({
  page,
  groundwork,
}) => {
  await createEnvironment(page, groundwork.url, {
    name: 'survivor',
    script: 'echo started\nsleep 3\necho done',
    test: true,
  });
  const result = page.getByRole('region', { name: panel });
  await expect(result.getByText('started', { exact: true }).last()).toBeVisible({ timeout: 30_000 });
  await groundwork.stop('SIGKILL');
  await groundwork.start();
  await page.goto(page.url().replace(/#.*/, ''));
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 75_000 });
  expect(groundwork.command('doctor', '--leftovers')).toBe('Nothing is left over.');
});

test('an answer that comes after its page was left disturbs nothing', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  const wait = new Wait();
  await createEnvironment(page, groundwork.url, { name: 'left', script: wait.command, test: true });
  // What the page asks for once the run has ended.
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  const asked = new Promise<void>((resolve) => {
    void page.route(/\/fn\/environment$/, async (route) => {
      resolve();
      await released;
      await route.continue();
    });
  });
  await expect(page.getByRole('region', { name: 'Setup test' }).getByText(/^line 1 of 1/)).toBeVisible({ timeout: 30_000 });
  wait.end();
  await asked;
  await page.getByRole('link', { name: 'Open its page' }).click();
  await expect(page.getByRole('heading', { level: 1, name: /^Setup run / })).toBeVisible();
  const answered = page.waitForResponse(/\/fn\/environment$/);
  release();
  await (await answered).finished();
  // The console goes on.
  await page.getByRole('link', { name: 'Environments', exact: true }).first().click();
  await expect(page.getByRole('heading', { level: 1, name: 'Environments' })).toBeVisible();
});
