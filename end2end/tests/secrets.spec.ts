// A pasted .env file: what is secret is guessed from names and values, and chosen line by line.
import { accessible, createEnvironment, expect, signIn, test } from '../fixtures';

test('lines of a pasted .env file become secrets or environment variables, as one chooses', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'pasted' });
  await page.getByRole('heading', { name: 'Paste a .env file' }).click();
  await page
    .locator('#secret-dotenv')
    .fill('# ours\nDB_PASSWORD=long-enough-1\nLOG_LEVEL=debug\nTOKEN=dev\nDATABASE_URL=postgres://a:hush@db.example/x\nREGION=eu-central-1');
  const line = (name: string) => page.locator(`#secret-line-${name}`);
  for (const [name, secret] of [['DB_PASSWORD', true], ['DATABASE_URL', true], ['REGION', false], ['LOG_LEVEL', false]] as const) {
    await expect(line(name)).toBeChecked({ checked: secret });
  }
  await expect(line('TOKEN')).toBeDisabled();
  await accessible(page);
  await line('REGION').check();
  await line('DATABASE_URL').uncheck();
  await page.getByRole('button', { name: 'Set variables' }).click();
  const secrets = page.locator('#secrets');
  await expect(secrets.getByText('Set as secret variables: DB_PASSWORD, REGION.')).toBeVisible();
  for (const name of ['DB_PASSWORD', 'REGION']) {
    await expect(secrets.getByRole('button', { name: `Remove ${name}` })).toBeVisible();
  }
  await expect(page.locator('#env_vars')).toHaveValue('DATABASE_URL=postgres://a:hush@db.example/x\nLOG_LEVEL=debug\nTOKEN=dev\n');
  await expect(page.locator('#secret-dotenv')).toHaveValue('');
  // What had better be secret is said beside the variables.
  await expect(page.getByText('DATABASE_URL: It looks secret')).toBeAttached();
});

test('a secret leaves the page once it is set', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, { name: 'one secret' });
  await page.locator('#secret-name').fill('API_TOKEN');
  await page.locator('#secret-value').fill('hush-hush-hush');
  await page.getByRole('button', { name: 'Set secret' }).click();
  await expect(page.getByText('API_TOKEN is set.')).toBeVisible();
  await expect(page.locator('#secret-value')).toHaveValue('');
  await expect(page.locator('#secret-name')).toHaveValue('');
  // What is refused stays.
  await page.locator('#secret-name').fill('PATH');
  await page.locator('#secret-value').fill('hush-hush-hush');
  await page.getByRole('button', { name: 'Set secret' }).click();
  await expect(page.locator('#secrets').getByText('PATH cannot be set')).toBeVisible();
  await expect(page.locator('#secret-value')).toHaveValue('hush-hush-hush');
});

test('what is saved at once says before that it makes the verdict stale', async ({ page, groundwork }) => {
  await signIn(page, groundwork.url);
  await createEnvironment(page, groundwork.url, {
    name: 'announced',
    script: 'exec 3<>/dev/tcp/blocked.example/443 || true',
    test: true,
  });
  await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
  const secrets = page.locator('#secrets').getByText('Setting or removing one makes the verdict stale');
  const hosts = page.getByText('Allowing one makes the verdict stale');
  await expect(secrets).toBeVisible();
  await expect(hosts).toBeVisible();
  await accessible(page);
  await page.locator('#secret-name').fill('API_TOKEN');
  await page.locator('#secret-value').fill('hush-hush-hush');
  await page.getByRole('button', { name: 'Set secret' }).click();
  await expect(page.getByText('The verdict is about an earlier configuration.')).toBeVisible();
  await expect(secrets).toHaveCount(0);
  await expect(hosts).toHaveCount(0);
});
