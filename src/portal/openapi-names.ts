import type { JsonSchema } from '../config/schema.ts'
import type { RouteBase } from './route.ts'

/** What the last segment of a POST may be besides a noun. */
const verbs: ReadonlySet<string> = new Set([
  ...['delete', 'undelete', 'suspend', 'resume', 'rotate', 'revoke', 'test', 'drain', 'undrain', 'reload'],
])

type NamedRoute = Pick<RouteBase<never, never>, 'method' | 'path' | 'operationId'> & { readonly response?: JsonSchema | undefined }

/** What generated clients call their functions: `post /keys/{id}/revoke` is `revokeKey`, `get /keys` is `listKeys`. */
export const operationIdOf = ({ method, path, response, operationId }: NamedRoute): string => {
  if (operationId !== undefined) return operationId
  const segments = path.slice(1).split('/')
  const last = segments.at(-1) ?? ''
  const verb = method === 'post' && verbs.has(last) ? last : undefined
  const nouns = verb === undefined ? segments : segments.slice(0, -1)
  const isOne = method === 'post' && verb === undefined
  return (
    (verb ?? verbOf(method, response)) + nouns.map((segment, i) => nameOf(segment, nouns[i + 1], isOne && i === nouns.length - 1)).join('')
  )
}

const verbOf = (method: NamedRoute['method'], response: JsonSchema | undefined): string => {
  if (method === 'get') return response?.['type'] === 'array' ? 'list' : 'get'
  return { post: 'create', patch: 'update', delete: 'delete' }[method]
}

/** Of a segment of the path; nothing for a parameter, before which a plural names one. */
const nameOf = (segment: string, next = '', isOne: boolean): string => {
  if (segment.startsWith('{')) return ''
  const word = isOne || next.startsWith('{') ? toSingular(segment) : segment
  return word.replaceAll(/(?:^|-)(\w)/g, (_, letter: string) => letter.toUpperCase())
}

const toSingular = (word: string): string => (word === 'people' ? 'person' : word.replace(/ies$/, 'y').replace(/s$/, ''))
