import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { plugins } from '../../plugins/index.ts'
import { editorSchemas, formatSchema } from '../../src/config/editor-schema.ts'
import { gatewaySchema } from '../../src/config/gateway-options.ts'
import { formats } from '../../src/config/formats.ts'
import { networkSchema } from '../../src/config/network-options.ts'
import { methodTableKeywords } from '../../src/services/method-table/table-schema.ts'
import { describeOptions } from '../../src/config/describe-options.ts'
import { exportsOf, findDeclaration } from '../tools/declarations.ts'
import { createReferencePages } from '../tools/reference.ts'
import { rootDir } from '../tools/source-files.ts'

const dir = join(rootDir, 'docs/reference')

void t.test('docs/reference is what `npm run docs` writes', async t => {
  const pages = await createReferencePages()
  t.same(readdirSync(dir).sort(), [...pages.keys()].sort())
  for (const [file, text] of pages) t.equal(readFileSync(join(dir, file), 'utf8'), text, `${file} is fresh: else run npm run docs`)
})

void t.test('configs/schemas is what `npm run docs` writes', async t => {
  for (const [name, schema] of Object.entries(editorSchemas(plugins))) {
    t.equal(
      readFileSync(join(rootDir, `configs/schemas/${name}.json`), 'utf8'),
      formatSchema(schema),
      `${name} is fresh: else run npm run docs`,
    )
  }
})

const options = [...plugins.map(plugin => plugin.options), gatewaySchema, networkSchema].flatMap(schema => describeOptions(schema))

void t.test('every option has a description, and an example where there is no default', async t => {
  t.ok(options.length > 40)
  for (const { path, description, default: value, examples, hasChildren } of options) {
    t.match(description, /^[\w`].*[.?]$/, path)
    t.ok(hasChildren || value !== undefined || examples.length > 0, path)
  }
})

void t.test('every example and default of a text with a format has this format', async t => {
  for (const { path, schema, default: value, examples } of options) {
    if (schema.type !== 'string' || schema.format === undefined) continue
    for (const text of [...examples, ...(value === undefined ? [] : [value])]) t.ok(formats[schema.format].accepts(String(text)), path)
  }
})

void t.test('every keyword of the method table has a description', async t => {
  for (const [section, keywords] of Object.entries(methodTableKeywords)) {
    for (const [name, { description }] of Object.entries<{ readonly description?: string }>(keywords)) {
      t.match(description, /^[A-Z`].*\.$/, `${section}: ${name}`)
    }
  }
})

void t.test('the page of the API has each name that plugins can import, and its description; and each service', async t => {
  const exported = exportsOf('src/plugin/plugin.ts')
  const names = exported.filter(({ kind }) => kind !== 'type' && kind !== 'interface').map(({ name }) => name)
  t.same(names.toSorted(), Object.keys({ ...(await import('../../src/plugin/plugin.ts')) }).sort())
  const { members } = findDeclaration('src/services/index.ts', 'Services')
  t.ok(exported.length > 40 && members.length > 20)
  for (const { name, description } of [...exported, ...members]) t.match(description, /^[A-Z`].*\.$/, name)
})

void t.test('the page for authors of plugins explains each name that plugins can import', async t => {
  const text = readFileSync(join(rootDir, 'docs/plugins.md'), 'utf8')
  const section = text.slice(text.indexOf('## What to import'), text.indexOf('## Test a plugin'))
  for (const { name } of exportsOf('src/plugin/plugin.ts')) t.match(section, new RegExp(`\`${name}\\b`), name)
})
