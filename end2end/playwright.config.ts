import { defineConfig } from '@playwright/test';

// One worker: the stories share two cores with the sandboxes that they start.
export default defineConfig({
  testDir: 'tests',
  workers: 1,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  forbidOnly: true,
  snapshotPathTemplate: '{testDir}/aria/{arg}{ext}',
  retries: 0,
  reporter: [['list']],
  use: {
    actionTimeout: 15_000,
    trace: 'retain-on-failure',
    screenshot: 'only-on-failure',
    launchOptions: {
      executablePath: process.env.GROUNDWORK_CHROMIUM ?? '/usr/bin/chromium',
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    },
  },
});
