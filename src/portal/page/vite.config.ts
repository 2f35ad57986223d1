import { defineConfig } from 'vite'

// The page is served by src/portal/page-files.ts under a strict Content-Security-Policy: no inline code, no other origin.
export default defineConfig({
  root: import.meta.dirname,
  base: '/',
  build: {
    outDir: '../../../dist/page',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
})
