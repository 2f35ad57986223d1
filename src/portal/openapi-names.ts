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

/** Statuses of errors, by the names of their responses in the document. */
export const errorResponses = {
  BadRequest: [400, 'A member of the request is wrong, as `field` says, or the body is no JSON.'],
  Unauthorized: [401, 'Nobody is signed in, or the token, the session or the link has ended.'],
  Forbidden: [403, 'The role does not suffice, the token is read-only, or the request comes from a page of another site.'],
  NotFound: [404, 'There is nothing of this id.'],
  Conflict: [409, 'What is there already forbids the change.'],
  ContentTooLarge: [413, 'The body is too large.'],
  UnsupportedMediaType: [415, 'The body is not sent as JSON.'],
  TooManyRequests: [429, 'Too many attempts or changes: see `Retry-After`.'],
  InternalError: [500, 'A bug of the gateway; the log has `X-Request-Id`.'],
  ServiceUnavailable: [503, 'The store, or the provider, is unreachable.'],
} as const

type ErrorName = keyof typeof errorResponses

interface FailingRoute extends Pick<RouteBase<unknown, unknown>, 'method' | 'path' | 'query' | 'body'> {
  readonly isPublic?: boolean
}

/** What may go wrong with requests of the route. */
export const errorsOf = ({ method, path, query, body, isPublic = false }: FailingRoute): readonly ErrorName[] => {
  const isChange = method !== 'get'
  const applies: Readonly<Record<ErrorName, boolean>> = {
    BadRequest: query !== undefined || body !== undefined,
    Unauthorized: !isPublic || isChange,
    Forbidden: !isPublic || isChange,
    NotFound: path.includes('{') || (isPublic && isChange),
    Conflict: isChange,
    ContentTooLarge: body !== undefined,
    UnsupportedMediaType: body !== undefined,
    TooManyRequests: !isPublic || isChange,
    InternalError: true,
    ServiceUnavailable: true,
  }
  return (Object.keys(errorResponses) as ErrorName[]).filter(name => applies[name]) // of a literal
}
