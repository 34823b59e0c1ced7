import { defineConfig } from '@playwright/test';
import stories from './playwright.config';

// Measurements, run by `make bench`, never by `make test`: a busy machine says nothing.
// One after the other: they would slow each other down. Without traces: recording them takes a part of what is measured.
export default defineConfig({
  ...stories,
  testDir: 'bench',
  workers: 1,
  timeout: 300_000,
  use: { ...stories.use, trace: 'off', screenshot: 'off' },
});
