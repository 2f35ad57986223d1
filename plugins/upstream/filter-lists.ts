import { isJsonObject } from '../../src/plugin/plugin.ts'
import type { Json, JsonObject, Request, Target } from '../../src/plugin/plugin.ts'

// The addresses and the topics of a query for logs, as the method table has checked and normalized them (contract 2.4).

type ParamLimit = Pick<Target, 'maxParams'>

export const filterOf = ({ params: [filter] }: Request): JsonObject => (isJsonObject(filter) ? filter : {})

/** The same query without duplicates in lists that are too long for the node. */
export const removeDuplicates = (request: Request, { maxParams = Infinity }: ParamLimit): Request =>
  withLists(
    request,
    listsOf(request).map(list => distinctValues(list, maxParams)),
  )

/** How many queries the lists of a query become where a node accepts `maxParams` of each. */
export const countListChunks = (request: Request, { maxParams = Infinity }: ParamLimit): number =>
  listsOf(request).reduce<number>((count, list) => count * countSublists(list, maxParams), 1)

/**
 * The query as several queries with fewer addresses and topics. A log matches one of them at most, since it has one
 * address, and one topic in each position, and every value is in one sublist only.
 */
export const splitByLists = (request: Request, { maxParams = Infinity }: ParamLimit): readonly Request[] =>
  listsOf(request)
    .reduce<readonly (readonly Json[])[]>(
      (rows, list) => rows.flatMap(row => sublistsOf(list, maxParams).map(sublist => [...row, sublist])),
      [[]],
    )
    .map(lists => withLists(request, lists))

/** The address, then each position of the topics. */
const listsOf = (request: Request): readonly Json[] => {
  const { address = null, topics } = filterOf(request)
  return [address, ...(Array.isArray(topics) ? (topics as readonly Json[]) : [])]
}

const withLists = (request: Request, [address = null, ...topics]: readonly Json[]): Request => {
  const filter = filterOf(request)
  return { ...request, params: [{ ...filter, ...('address' in filter && { address }), ...('topics' in filter && { topics }) }] }
}

const isLongList = (list: Json, maxLength: number): list is readonly Json[] => Array.isArray(list) && list.length > maxLength

/** A null among topics matches any topic, so that a list with null matches anything. */
const distinctValues = (list: Json, maxLength: number): Json =>
  !isLongList(list, maxLength) ? list : list.includes(null) ? null : [...new Set(list)]

const countSublists = (list: Json, maxLength: number): number => (isLongList(list, maxLength) ? Math.ceil(list.length / maxLength) : 1)

const sublistsOf = (list: Json, maxLength: number): readonly Json[] =>
  !isLongList(list, maxLength)
    ? [list]
    : Array.from({ length: countSublists(list, maxLength) }, (_, i) => list.slice(i * maxLength, (i + 1) * maxLength))
