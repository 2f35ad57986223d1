import { Document, isCollection, isMap, isScalar, isSeq } from 'yaml'
import type { Node } from 'yaml'
import type { Path } from '../util/json.ts'
import type { Schema } from '../plugin/options-schema.ts'
import { isJsonObject } from '../util/json.ts'
import { secrecyOf, mapOptions } from './schema.ts'
import { maskUrls } from './masking.ts'
import { pathInFile } from './optional-variables.ts'
import type { YamlFile } from './yaml-file.ts'

/** A file as the gateway uses it: variables replaced, defaults filled in, secrets masked; in the form of the file itself. */
export interface EffectiveFile {
  readonly source: YamlFile
  /** Undefined for gateway.yaml. */
  readonly network?: string
  readonly value: Readonly<Record<string, unknown>>
  /** Pointers of what the file has and the value has not, because variables are not set. */
  readonly omitted: readonly string[]
}

/** The value with secrets masked: of URLs all but scheme, host and port, and texts of the format `secret`. */
export const maskSecrets = (effective: unknown, options: Schema | undefined): unknown =>
  mapOptions(effective, options, ({ value, schema }) => {
    if (typeof value !== 'string') return value
    return secrecyOf(schema) === 'hidden' ? '***' : maskUrls(value).replace(/\*+/g, '***')
  })

/** As YAML; a value that the file does not contain has the comment `default`. */
export const formatEffectiveFile = ({ source, value, omitted }: EffectiveFile): string => {
  const document = new Document(value)
  const annotate = (node: Node | null, path: Path): void => {
    if (isMap(node)) {
      node.flow = node.items.length === 0
      for (const { key, value } of node.items) annotate(value as Node | null, [...path, String(key)]) // of values that are nodes
    } else if (isSeq(node)) {
      node.flow = node.items.every(item => isScalar(item))
      node.items.forEach((item, index) => annotate(item as Node, [...path, index])) // of values that are nodes
    }
    const isOneLine = isScalar(node) || (isCollection(node) && node.flow === true)
    if (isOneLine && source.valueAt(pathInFile(path, omitted)) === undefined) node.comment = ' default'
  }
  annotate(document.contents, [])
  return document.toString({ lineWidth: 0, flowCollectionPadding: false })
}

/** The step of a pipeline in the form of the file, with these options. */
export const effectiveStep = (step: unknown, options: unknown): unknown => {
  if (!isJsonObject(step)) return step
  if (Object.hasOwn(step, 'use')) return { ...step, with: options }
  return Object.fromEntries(Object.keys(step).map(name => [name, options]))
}
