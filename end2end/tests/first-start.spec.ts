import { test as base, expect } from '@playwright/test';
import { Groundwork } from '../groundwork';
import { accessible, environmentPage, watch } from '../fixtures';

base('a first start leads from the printed link to a verified environment', async ({ page }) => {
  const complaints: string[] = [];
  watch(page, complaints);
  const groundwork = new Groundwork();
  try {
    await groundwork.start();
    await page.goto(`${groundwork.url}/environments`);
    await expect(page, 'a stranger is led to the start').toHaveURL(/\/(sign-in|setup)/);

    await expect.poll(() => groundwork.output).toContain('/setup?token=');
    await page.goto(groundwork.setupLink());
    await accessible(page);
    await page.getByLabel('Organization name').fill('Example');
    await page.getByLabel('Your name').fill('Ada');
    await page.getByLabel('E-mail address').fill('ada@example.test');
    await page.getByLabel('Password').fill('a long enough sentence');
    await page.getByRole('button', { name: 'Set up and sign in' }).click();
    await expect(page).toHaveURL(/\/environments/);
    await expect(page.getByText('No environments yet')).toBeVisible();
    await accessible(page);

    // The link works once.
    const again = await page.request.get(groundwork.setupLink(), { maxRedirects: 0 });
    expect(again.status() === 200 && (await again.text()).includes('Set up and sign in')).toBe(false);

    await page.getByRole('link', { name: /Base sandbox/ }).click();
    await expect(page).toHaveURL(/template=base-sandbox/);
    await expect(page.getByRole('heading', { name: 'Create environment' })).toBeVisible();
    await expect(page.getByText(/^Filled from Base sandbox/)).toBeVisible();
    await page.locator('#name').fill('from base sandbox');
    await page.getByLabel('Setup script').fill('echo one\nfor i in 1 2 3; do\n  echo "step $i"\ndone\necho "made it" > /workspace/made\n');
    await page.getByRole('button', { name: 'Save and test setup' }).click();
    await environmentPage(page);
    await expect(page.getByText('Setup verified.').first()).toBeVisible({ timeout: 60_000 });
    await expect(page.getByRole('region', { name: 'Setup test' }).getByText('step 3')).toBeVisible();
    await page.goto(`${groundwork.url}/environments`);
    await expect(page.getByRole('row', { name: /from base sandbox/ }).getByText('Verified')).toBeVisible();
    expect(complaints).toEqual([]);
  } finally {
    await groundwork.remove();
  }
});
