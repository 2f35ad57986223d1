import type { Path } from '../plugin.ts'
import { mendHost, normaliseHost } from './address.ts'
import { pointer } from './path.ts'
import { suggest } from '../nearest.ts'
import type { Problem } from './problem.ts'
import type { Source } from './source.ts'
import { describeFound } from './words.ts'

/** A host that a network's file lists. */
export interface ListedHost {
  /** As Host headers are compared with it: in lower case; IPv6 without brackets. */
  readonly host: string
  readonly source: Source
  readonly path: Path
}

/** The hosts of one network's file, and what is wrong with the others. */
export const readHosts = (source: Source): { hosts: readonly ListedHost[]; problems: readonly Problem[] } => {
  const list = source.at(['hosts'])
  const hosts: ListedHost[] = []
  const problems: Problem[] = []
  for (const index of Array.isArray(list) ? list.keys() : []) {
    const path = ['hosts', index]
    const text = source.textAt(path)
    if (text === undefined) continue
    const host = normaliseHost(text)
    if (host === undefined) problems.push(noHost(source, path, text))
    else hosts.push({ host, source, path })
  }
  return { hosts, problems }
}

/** A problem for each host that stands a second time, in one file or in two. */
export const hostsTwice = (hosts: readonly ListedHost[]): readonly Problem[] => {
  const first = new Map<string, ListedHost>()
  return hosts.flatMap(listed => {
    const other = first.get(listed.host)
    first.set(listed.host, other ?? listed)
    if (other === undefined) return []
    const { file, line, column } = other.source.problem(other.path, '')
    const found = describeFound(listed.source, listed.path)
    return [listed.source.problem(listed.path, `hosts must differ: ${found} stands at ${file}:${line}:${column} too`)]
  })
}

const noHost = (source: Source, path: Path, text: string): Problem => {
  const hint = source.texts.has(pointer(path)) ? undefined : suggest(mendHost(text))
  const message = `a host must be a host name or an IP address, without port, not ${describeFound(source, path)}`
  return source.problem(path, message, hint)
}
