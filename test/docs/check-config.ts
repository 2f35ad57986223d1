import { cpSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { plugins } from '../../plugins/index.ts'
import { createCheckCommand } from '../../src/cli/check.ts'
import { dryRunNetworks } from '../../src/core/dry-run.ts'

export const examplePlugins: readonly string[] = readdirSync('docs/examples').filter(file => /(?<!\.test)\.js$/.test(file))
/** The tests that plugins have beside them, for `node --test`. */
export const exampleTests: readonly string[] = readdirSync('docs/examples').filter(file => file.endsWith('.test.js'))
export const exampleNetworks: readonly string[] = readdirSync('docs/examples/networks')

/** Runs `tollgate check` on these files beside the shipped method table and the example plugins; gives its exit code and problems. */
export const checkConfig = async (
  dir: string,
  files: Readonly<Record<string, string>>,
): Promise<{ readonly code: number; readonly problems: string }> => {
  cpSync('configs/methods', join(dir, 'methods'), { recursive: true })
  for (const plugin of examplePlugins) cpSync(join('docs/examples', plugin), join(dir, plugin))
  for (const [file, text] of Object.entries({ ...defaultFiles, ...files })) {
    mkdirSync(dirname(join(dir, file)), { recursive: true })
    writeFileSync(join(dir, file), text)
  }
  const problems: string[] = []
  const terminal = { env: envOf(files), out: () => undefined, err: (line: string) => void problems.push(line) }
  const code = await createCheckCommand(plugins, dryRunNetworks).run(['--config', dir], terminal)
  return { code, problems: problems.join('\n') }
}

/** Every variable that the files name is set, so that nothing is left unchecked. */
const envOf = (files: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.values(files)
      .flatMap(text => [...text.matchAll(/\$\{(\w+)/g)])
      // Each with a URL of its own: two upstreams with one URL are a warning.
      .map(([, name = '']) => [
        name,
        `${schemes.find(scheme => name.includes(scheme.toUpperCase())) ?? 'http'}://${name.toLowerCase().replaceAll('_', '-')}.test:1`,
      ]),
  )

const schemes = ['redis', 'smtp', 'ws']

const defaultFiles: Readonly<Record<string, string>> = {
  'gateway.yaml': 'store: lmdb:data\nplans: { core: { dailyCredits: 1000 } }\n',
  'networks/devnet.yaml': readFileSync('configs/networks/devnet.yaml', 'utf8').replaceAll(/\$\{DEVNET_URL\}/g, 'http://127.0.0.1:1'),
}
