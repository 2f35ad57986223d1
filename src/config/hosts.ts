import type { Path } from '../util/json.ts'
import { normalizeHost } from '../util/host-name.ts'
import type { Problem } from './problem.ts'
import type { YamlFile } from './yaml-file.ts'

/** A host that a file lists. */
export interface ListedHost {
  /** As Host headers are compared with it: lower case, IPv6 without brackets. */
  readonly host: string
  readonly source: YamlFile
  readonly path: Path
}

/** The valid `hosts` of a network file. */
export const listHosts = (source: YamlFile): readonly ListedHost[] => {
  const list = source.valueAt(['hosts'])
  return (Array.isArray(list) ? [...list.keys()] : []).flatMap(index => {
    const path = ['hosts', index]
    const host = normalizeHost(source.textAt(path) ?? '')
    return host === undefined ? [] : [{ host, source, path }]
  })
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
