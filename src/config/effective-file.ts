import { Document, isCollection, isMap, isScalar, isSeq } from 'yaml'
import type { Node } from 'yaml'
import type { Path } from '../plugin/plugin.ts'
import type { Schema } from '../plugin/options-schema.ts'
import { isJsonObject } from '../util/json.ts'
import { secrecyOf, mapOptions } from './schema.ts'
import { maskUrls } from './masking.ts'
import type { YamlFile } from './yaml-file.ts'

/** A file as the gateway uses it: variables replaced, defaults filled in, secrets masked; in the form of the file itself. */
export interface EffectiveFile {
  readonly source: YamlFile
  readonly value: Readonly<Record<string, unknown>>
}

/** The value with secrets masked: of URLs all but scheme, host and port, and texts of the format `secret`. */
export const maskSecrets = (effective: unknown, options: Schema | undefined): unknown =>
  mapOptions(effective, options, ({ value, schema }) => {
    if (typeof value !== 'string') return value
    return secrecyOf(schema) === 'hidden' ? '***' : maskUrls(value).replace(/\*+/g, '***')
  })

/** As YAML; a value that the file does not contain has the comment `default`. */
export const formatEffectiveFile = ({ source, value }: EffectiveFile): string => {
  const document = new Document(value)
  /** `path` is that of the node in the file. */
  const annotate = (node: Node | null, path: Path): void => {
    if (isMap(node)) {
      node.flow = node.items.length === 0
      for (const { key, value } of node.items) annotate(value as Node | null, [...path, String(key)]) // of values that are nodes
    } else if (isSeq(node)) {
      node.flow = node.items.every(item => isScalar(item))
      node.items.forEach((item, index) => {
        const indexInFile = findItem(source.valueAt(path), item, { index, count: node.items.length })
        if (indexInFile >= 0) annotate(item as Node, [...path, indexInFile])
      })
    }
    const isOneLine = isScalar(node) || (isCollection(node) && node.flow === true)
    if (isOneLine && source.valueAt(path) === undefined) node.comment = ' default'
  }
  annotate(document.contents, [])
  return document.toString({ lineWidth: 0, flowCollectionPadding: false })
}

/** In an optional network, items whose variables are not set are omitted: then the others stand elsewhere in the file, and names tell them apart. */
const findItem = (written: unknown, item: unknown, { index, count }: { readonly index: number; readonly count: number }): number => {
  if (!Array.isArray(written)) return -1
  if (written.length === count) return index
  const name = isMap(item) ? item.get('name') : undefined
  return name === undefined ? -1 : written.findIndex(each => isJsonObject(each) && each['name'] === name)
}

/** The step of a pipeline in the form of the file, with these options. */
export const effectiveStep = (step: unknown, options: unknown): unknown => {
  if (!isJsonObject(step)) return step
  if (Object.hasOwn(step, 'use')) return { ...step, with: options }
  return Object.fromEntries(Object.keys(step).map(name => [name, options]))
}
