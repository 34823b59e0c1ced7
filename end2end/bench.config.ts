import { defineConfig } from '@playwright/test';
import stories from './playwright.config';

// Measurements, run by `make bench`, never by `make test`: a busy machine says nothing.
export default defineConfig({ ...stories, testDir: 'bench', timeout: 300_000 });
