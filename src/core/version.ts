import { readFileSync } from 'node:fs'

/** What package.json, three folders above the compiled file, says. */
export const { version, peerDependencies } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
  readonly version: string
  readonly peerDependencies: Readonly<Record<string, string>>
}
