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
    // One page for developers, on the listener `portal`; one for the operator, on the admin listener.
    rolldownOptions: { input: ['index.html', 'operator.html'].map(file => `${import.meta.dirname}/${file}`) },
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
})
