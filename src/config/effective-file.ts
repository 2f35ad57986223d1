import { Document, isMap, isScalar, isSeq } from 'yaml'
import type { Node } from 'yaml'
import type { Path } from '../plugin/plugin.ts'
import type { Schema } from '../plugin/options-schema.ts'
import { isJsonObject } from '../util/json.ts'
import { mapItems } from '../util/json-path.ts'
import { childSchema } from './schema.ts'
import { maskUrls } from './variables.ts'
import type { YamlFile } from './yaml-file.ts'

/** A file as the gateway uses it: variables replaced, defaults filled in, secrets masked; in the form of the file itself. */
export interface EffectiveFile {
  readonly source: YamlFile
  readonly value: Readonly<Record<string, unknown>>
}

/** The value with secrets masked: of URLs all but scheme, host and port, and texts of the format `secret`. */
export const maskSecrets = (value: unknown, schema: Schema | undefined): unknown => {
  if (typeof value !== 'string') return mapItems(value, (item, part) => maskSecrets(item, childSchema(schema, part)))
  const isSecret = schema?.type === 'string' && schema.format === 'secret'
  return isSecret ? '***' : maskUrls(value).replace(/\*+/g, '***')
}

/** As YAML; a value that the file does not contain has the comment `default`. */
export const formatEffectiveFile = ({ source, value }: EffectiveFile): string => {
  const document = new Document(value)
  const annotate = (node: Node | null, path: Path): void => {
    if (isMap(node))
      for (const { key, value } of node.items) annotate(value as Node | null, [...path, String(key)]) // of values that are nodes
    else if (isSeq(node)) {
      node.flow = node.items.every(item => isScalar(item))
      if (isAligned(source, path, node.items.length)) node.items.forEach((item, index) => annotate(item as Node, [...path, index]))
    }
    const isOneLine = isScalar(node) || (isSeq(node) && node.flow === true)
    if (isOneLine && source.valueAt(path) === undefined) node.comment = ' default'
  }
  annotate(document.contents, [])
  return document.toString({ lineWidth: 0, flowCollectionPadding: false })
}

/** In an optional network, items whose variables are not set are omitted: then the others stand elsewhere in the file. */
const isAligned = (source: YamlFile, path: Path, length: number): boolean => {
  const written = source.valueAt(path)
  return Array.isArray(written) && written.length === length
}

/** The step of a pipeline in the form of the file, with these options. */
export const effectiveStep = (step: unknown, options: unknown): unknown => {
  if (!isJsonObject(step)) return step
  if (Object.hasOwn(step, 'use')) return { ...step, with: options }
  return Object.fromEntries(Object.keys(step).map(name => [name, options]))
}
