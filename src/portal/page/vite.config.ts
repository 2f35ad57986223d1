import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vite'
import type { Plugin, Rolldown } from 'vite'

/** The folders of the pages, and what each is for. */
const descriptions: Readonly<Record<string, string>> = {
  developer: 'Keys, credits and usage of your account',
  operator: 'Accounts, traffic, nodes and changes of this gateway',
  gallery: 'The components of the pages',
}

/** A script that browsers run before they draw anything, of which Vite would make a module. */
const addScriptAtStart = (): Plugin => {
  const source = readFileSync(join(import.meta.dirname, 'theme-at-start.js'))
  const fileName = `assets/theme-at-start-${hash('sha256', source).slice(0, 8)}.js`
  return {
    name: 'add-script-at-start',
    apply: 'build',
    buildStart() {
      this.emitFile({ type: 'asset', fileName, source })
    },
    transformIndexHtml: () => [{ tag: 'script', attrs: { src: `/${fileName}` }, injectTo: 'head-prepend' }],
  }
}

/** The texts of uPlot that start Intl when it is loaded, and what is as good here: axes format their values, and times are UTC. */
const withoutIntl = [
  ["new Intl.NumberFormat(domEnv ? nav.language : 'en-US')", '{ format: String }'],
  ['new Intl.DateTimeFormat().resolvedOptions().timeZone', "'UTC'"],
] as const

/** The first use of Intl takes a browser 15 ms of CPU. */
const loadPlotsWithoutIntl = (): Plugin => ({
  name: 'load-plots-without-intl',
  transform: {
    filter: { id: /uPlot\.esm\.js$/ },
    handler: code =>
      withoutIntl.reduce((changed, [text, replacement]) => {
        if (!changed.includes(text)) throw new Error(`uPlot no longer has: ${text}`)
        return changed.replace(text, replacement)
      }, code),
  },
})

/** The HTML file names all styles, and the code of its page: what Vite loads before code that is loaded later would be nothing. */
const loadLaterWithoutPreload = (): Plugin => ({
  name: 'load-later-without-preload',
  apply: 'build',
  enforce: 'pre',
  load: {
    filter: { id: /vite\/preload-helper\.js$/ },
    handler: () => 'export const __vitePreload = load => load()',
  },
})

/** The files of a page that load a module at their start: the first file, and those that are loaded later. */
const filesWith = (id: string, graph: Rolldown.ChunkingContext, seen = new Set<string>()): ReadonlySet<string> => {
  const { isEntry = false, importers = [], dynamicImporters = [] } = graph.getModuleInfo(id) ?? {}
  if (seen.has(id)) return new Set()
  seen.add(id)
  const own = isEntry || dynamicImporters.length > 0 ? [id] : []
  return new Set([...own, ...importers.flatMap(importer => [...filesWith(importer, graph, seen)])])
}

/**
 * What several files need is in the first one, with what that needs itself. Else each combination of files that need the same were a file, and
 * a request, of its own.
 */
const codeSplitting: Rolldown.CodeSplittingOptions = {
  groups: [
    {
      debugName: 'index',
      name: (id, graph) => {
        const files = filesWith(id, graph)
        return files.size > 1 || [...files].some(file => graph.getModuleInfo(file)?.isEntry === true) ? 'index' : null
      },
    },
  ],
}

// A page is served by src/portal/page-files.ts under a strict Content-Security-Policy: no inline code, no other origin. Pages are built
// apart: what they have in common would else be a file of its own, and one more request of each. The gallery is for development: `--mode
// gallery` builds or serves it alone, beside what is shipped.
export default defineConfig(({ mode }) => {
  const isGallery = mode === 'gallery'
  const pages = isGallery ? ['gallery'] : ['developer', 'operator']
  const outDir = (page: string): string => join('../../../dist', isGallery ? '' : 'page', page)
  return {
    root: import.meta.dirname,
    base: '/',
    build: {
      ...{ emptyOutDir: true, assetsInlineLimit: 0, license: { fileName: 'licenses.md' } },
      // The HTML file names what its script imports; what is loaded later imports nothing else.
      modulePreload: { polyfill: false, resolveDependencies: (_, files, { hostType }) => (hostType === 'html' ? files : []) },
    },
    environments: Object.fromEntries(
      pages.map(page => [
        page,
        {
          consumer: 'client',
          build: { outDir: outDir(page), rolldownOptions: { input: 'index.html', output: { codeSplitting } } },
        },
      ]),
    ),
    builder: {
      async buildApp(builder) {
        for (const page of pages) {
          const environment = builder.environments[page]
          if (environment !== undefined) await builder.build(environment)
        }
      },
    },
    plugins: [
      addScriptAtStart(),
      loadPlotsWithoutIntl(),
      loadLaterWithoutPreload(),
      {
        name: 'name-page',
        transformIndexHtml: {
          order: 'pre',
          handler(html) {
            const name = isGallery ? 'gallery' : this.environment.name
            return html.replace('%PAGE%', name).replace('%DESCRIPTION%', descriptions[name] ?? '')
          },
        },
      },
    ],
    oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  }
})
