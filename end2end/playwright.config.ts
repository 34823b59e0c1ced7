import { defineConfig } from '@playwright/test';

// Two workers, each with a server of its own: stories wait more than they compute. A failure's trace holds the page's
// states, not its film, which would cost as much as the stories themselves.
export default defineConfig({
  testDir: 'tests',
  workers: 2,
  // Limits for a machine that is several times slower than a good one: only what hangs waits for them.
  timeout: 120_000,
  expect: { timeout: 15_000 },
  forbidOnly: true,
  snapshotPathTemplate: '{testDir}/aria/{arg}{ext}',
  retries: 0,
  reporter: [['list']],
  use: {
    actionTimeout: 15_000,
    trace: { mode: 'retain-on-failure', screenshots: false },
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
