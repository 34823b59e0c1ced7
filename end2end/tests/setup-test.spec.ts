import { accessible, alive, createEnvironment, expect, signIn, test } from '../fixtures';
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
