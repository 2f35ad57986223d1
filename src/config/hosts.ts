import type { Path } from '../plugin/plugin.ts'
import { suggestHost, normalizeHost } from './addresses.ts'
import { jsonPointer } from './path.ts'
import { formatSuggestion } from '../util/did-you-mean.ts'
import type { Problem } from './problem.ts'
import type { YamlFile } from './yaml-file.ts'
import { describeValue } from './describe.ts'

/** A host that a network's file lists. */
export interface ListedHost {
  /** As Host headers are compared with it: in lower case; IPv6 without brackets. */
  readonly host: string
  readonly source: YamlFile
  readonly path: Path
}

/** The hosts of one network's file, and what is wrong with the others. */
export const readHosts = (source: YamlFile): { hosts: readonly ListedHost[]; problems: readonly Problem[] } => {
  const list = source.valueAt(['hosts'])
  const hosts: ListedHost[] = []
  const problems: Problem[] = []
  for (const index of Array.isArray(list) ? list.keys() : []) {
    const path = ['hosts', index]
    const text = source.textAt(path)
    if (text === undefined) continue
    const host = normalizeHost(text)
    if (host === undefined) problems.push(invalidHost(source, path, text))
    else hosts.push({ host, source, path })
  }
  return { hosts, problems }
}

/** A problem for each host that stands a second time, in one file or in two. */
export const duplicateHosts = (hosts: readonly ListedHost[]): readonly Problem[] => {
  const firstByHost = new Map<string, ListedHost>()
  return hosts.flatMap(listed => {
    const other = firstByHost.get(listed.host)
    firstByHost.set(listed.host, other ?? listed)
    if (other === undefined) return []
    const { file, line, column } = other.source.problemAt(other.path, '')
    const found = describeValue(listed.source, listed.path)
    return [listed.source.problemAt(listed.path, `hosts must differ: ${found} stands at ${file}:${line}:${column} too`)]
  })
}

const invalidHost = (source: YamlFile, path: Path, text: string): Problem => {
  const hint = source.expandedTexts.has(jsonPointer(path)) ? undefined : formatSuggestion(suggestHost(text))
  const message = `a host must be a host name or an IP address, without port, not ${describeValue(source, path)}`
  return source.problemAt(path, message, hint)
}
