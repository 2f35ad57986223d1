import type { Path } from '../plugin/plugin.ts'
import { formatSuggestion } from '../util/did-you-mean.ts'
import { jsonPointer } from '../util/json-path.ts'
import { hostRule, normalizeHost, suggestHost } from './addresses.ts'
import type { Problem } from './problem.ts'
import type { YamlFile } from './yaml-file.ts'

/** A host that a file lists. */
export interface ListedHost {
  /** As Host headers are compared with it: lower case, IPv6 without brackets. */
  readonly host: string
  readonly source: YamlFile
  readonly path: Path
}

/** The valid `hosts` of a network file, and the problems of the others. */
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

/** A problem for each host that is listed a second time, in one file or in two. */
export const duplicateHosts = (hosts: readonly ListedHost[]): readonly Problem[] => {
  const firstByHost = new Map<string, ListedHost>()
  return hosts.flatMap(listed => {
    const other = firstByHost.get(listed.host)
    firstByHost.set(listed.host, other ?? listed)
    if (other === undefined) return []
    const { file, line, column } = other.source.problemAt(other.path, '')
    const found = listed.source.describeValueAt(listed.path)
    return [listed.source.problemAt(listed.path, `duplicate host ${found}: already listed at ${file}:${line}:${column}`)]
  })
}

const invalidHost = (source: YamlFile, path: Path, text: string): Problem => {
  const hint = source.expandedTexts.has(jsonPointer(path)) ? undefined : (formatSuggestion(suggestHost(text)) ?? hostRule(text))
  const message = `a host must be a host name or an IP address, without port, not ${source.describeValueAt(path)}`
  return source.problemAt(path, message, hint)
}
