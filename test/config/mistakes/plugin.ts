import { edit, pluginText } from './mistake.ts'
import type { Mistake } from './mistake.ts'

/** It takes no CPU meanwhile: for seconds, other tests would have none of it. */
const endlessLoop = 'for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000)'

export const pluginMistakes: readonly Mistake[] = [
  {
    mistake: 'a plugin file that does not exist',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    answers: ['networks/arb.yaml:12:10: file p.js not found -> paths are relative to the folder of this file'],
  },
  {
    mistake: 'a plugin file twice',
    network: [['  - params', '  - use: ../p.js\n  - use: ../p.js\n  - params']],
    files: { 'p.js': pluginText },
    answers: [
      'networks/arb.yaml:13:5: duplicate step p: one of the two requires its own name -> write { use: ../p.js, name: …, with: { options } }',
    ],
  },
  {
    mistake: 'a plugin file as a bare name',
    network: [['  - params', '  - p\n  - params']],
    files: { 'p.js': pluginText },
    answers: [
      'networks/arb.yaml:12:5: a step must be a map with one key, the plugin\'s name, not "p" -> write `- use: ./p.js` for an external plugin',
    ],
  },
  {
    mistake: 'a syntax error',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': 'export default {\n  name: ,\n}\n' },
    answers: ["p.js:2:9: cannot load ../p.js: Unexpected token ',' -> the plugin of networks/arb.yaml:12:10"],
  },
  {
    mistake: 'a syntax error that Node.js places nowhere',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': 'export default {\n  name: call(a b),\n}\n' },
    answers: ['p.js:2:14: cannot load ../p.js: missing ) after argument list -> the plugin of networks/arb.yaml:12:10'],
  },
  {
    mistake: 'TypeScript in a package',
    network: [['  - params', '  - use: tollgate-plugin-x\n  - params']],
    files: {
      'node_modules/tollgate-plugin-x/package.json': '{ "name": "tollgate-plugin-x", "exports": "./x.ts", "type": "module" }',
      'node_modules/tollgate-plugin-x/x.ts': pluginText,
    },
    answers: [
      'networks/arb.yaml:12:10: cannot load tollgate-plugin-x: Node.js strips no types in node_modules (node_modules/tollgate-plugin-x/x.ts) -> publish the package with compiled .js, and let `exports` lead to it',
    ],
  },
  {
    mistake: 'no default export',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': 'export const plugin = {}\n' },
    answers: [
      'networks/arb.yaml:12:10: ../p.js has no plugin as its default export -> export default definePlugin({ name, summary, options, create })',
    ],
  },
  {
    mistake: 'a function as the default export',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': 'export default () => {}\n' },
    answers: [
      'networks/arb.yaml:12:10: ../p.js has no plugin as its default export -> export default definePlugin({ name, summary, options, create })',
    ],
  },
  {
    mistake: 'a plugin that throws at load',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': 'const x = 1\nthrow new Error("boom")\n' },
    answers: ['networks/arb.yaml:12:10: cannot load ../p.js: boom (p.js:2:7)'],
  },
  {
    mistake: 'a schema with a wrong type',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': edit(pluginText, ["type: 'object'", "type: 'objekt'"]) },
    answers: [
      'networks/arb.yaml:12:10: the default export of ../p.js is not a plugin: options must be a schema of type object -> export default definePlugin({ name, summary, options, create })',
    ],
  },
  {
    mistake: 'an array without items',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': edit(pluginText, ["type: 'integer', minimum: 1", "type: 'array'"]) },
    answers: [
      "networks/arb.yaml:12:10: the options schema of ../p.js is invalid: `calls` is an array without `items`; write items: { type: 'string' }, or items: {} for any value",
    ],
  },
  {
    mistake: 'an option without schema',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': edit(pluginText, ["{ type: 'integer', minimum: 1, description: 'Most calls.' }", "'integer'"]) },
    answers: ['networks/arb.yaml:12:10: the options schema of ../p.js is invalid: `calls` must be a schema, not "integer"'],
  },
  {
    mistake: 'a property without description',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': edit(pluginText, [", description: 'Most calls.'", '']) },
    answers: ['networks/arb.yaml:12:5: the option `calls` of p has no description -> editors show the descriptions of options'],
  },
  {
    mistake: 'the name of the plugin is not that of the file',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': edit(pluginText, ["name: 'p'", "name: 'other'"]) },
    answers: [],
  },
  {
    mistake: 'create() throws',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': edit(pluginText, ['create: () => (call, next) => next(call)', 'create: () => {\n    throw new Error("boom")\n  }']) },
    answers: ['networks/arb.yaml:12:5: p: cannot be created: Error: boom (p.js:9:11)'],
  },
  {
    mistake: 'a member of the context is read and not declared',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: {
      'p.js': edit(
        pluginText,
        ['options:', "reads: ['request'],\n  options:"],
        [
          '(call, next) => next(call)',
          '(call, next) => {\n    const { method } = call.context.request // call.context.target\n    const { request, account: { plan } } = call.context\n    return call.context.account.plan === method + plan ? next(call) : request\n  }',
        ],
      ),
    },
    answers: [
      'p.js:12:25: ../p.js reads `account` of the context, and does not declare it -> add account to `reads` (the plugin of networks/arb.yaml:12:10)',
    ],
  },
  {
    mistake: 'a member of the context is destructured and not declared',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: {
      'p.js': edit(pluginText, [
        '=> next(call)',
        '=> {\n    const { key: { id } = {}, account } = call.context\n    const { account: payer, key } = call.context\n    return id && payer && next(call)\n  }',
      ]),
    },
    answers: [
      'p.js:10:13: ../p.js reads `account` of the context, and does not declare it -> add account to `reads` (the plugin of networks/arb.yaml:12:10)',
    ],
  },
  {
    mistake: 'the handler reads of the context what vary() reads',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: {
      'p.js': edit(
        pluginText,
        ['options:', "reads: ['request', 'account'],\n  vary: ({ account }) => account.plan.name,\n  options:"],
        ['(call, next) => next(call)', '(call, next) => (call.context.request && call.context.account ? next(call) : next(call))'],
      ),
    },
    answers: [
      'p.js:10:71: ../p.js reads `account` of the context beside vary() -> let vary() return what is needed of account, and read call.variant (the plugin of networks/arb.yaml:12:10)',
    ],
  },
  {
    mistake: 'a member of the context is written and not declared',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: {
      'p.js': edit(
        pluginText,
        ['options:', "writes: ['zone'],\n  options:"],
        ['next(call)', 'next(withContext(call, { zone: f(1, two, [3, 4]), region: String(call.origin.ip) }))'],
      ),
    },
    answers: [
      'p.js:9:83: ../p.js writes `region` of the context, and does not declare it -> add region to `writes` (the plugin of networks/arb.yaml:12:10)',
    ],
  },
  {
    mistake: 'a refusal that is none',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: {
      'p.js': edit(`import { refuse } from 'tollgate/plugin'\n${pluginText}`, [
        '=> next(call)',
        "=> {\n    // refuse('nothing')\n    if (call.origin.refuse('it')) return refuse('params')\n    return refuse('forbiden')\n  }",
      ]),
    },
    answers: [
      "p.js:12:12: ../p.js has refuse('forbiden'), which is no refusal -> did you mean `forbidden`? (the plugin of networks/arb.yaml:12:10)",
    ],
  },
  {
    mistake: 'create() loops',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: {
      'p.js': edit(pluginText, ['create: () => (call, next) => next(call)', `create: () => {\n    try { ${endlessLoop} } finally {}\n  }`]),
    },
    answers: ['networks/arb.yaml:12:5: p: cannot be created: create() has not returned after 3 s (p.js)'],
  },
  {
    mistake: 'check() loops',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': edit(pluginText, ['create:', `check: () => {\n    ${endlessLoop}\n  },\n  create:`]) },
    answers: ['networks/arb.yaml:12:5: p: check() of the plugin has not returned after 3 s (p.js)'],
  },
  {
    mistake: 'the top level loops',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': `import { definePlugin } from 'tollgate/plugin'\n${endlessLoop}\n${pluginText}` },
    answers: [
      'networks/arb.yaml:12:10: cannot load ../p.js: its top level has not ended after 5 s (p.js) -> look for a loop outside of functions, or an `await` of what never comes',
    ],
  },
  {
    mistake: 'the top level awaits what never comes',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': `await new Promise(() => {})\n${pluginText}` },
    answers: [
      'networks/arb.yaml:12:10: cannot load ../p.js: its top level has not ended after 5 s (p.js) -> look for a loop outside of functions, or an `await` of what never comes',
    ],
  },
  {
    mistake: 'a package that is not installed',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': 'import pad from "left-pad-xyz"\nexport default pad\n' },
    answers: ['networks/arb.yaml:12:10: cannot load ../p.js: package left-pad-xyz not found (p.js) -> npm install left-pad-xyz'],
  },
  {
    mistake: 'a package that is not installed, in CommonJS',
    network: [['  - params', '  - use: ../p.cjs\n  - params']],
    files: { 'p.cjs': 'module.exports = require("@left/pad-xyz")\n' },
    answers: ['networks/arb.yaml:12:10: cannot load ../p.cjs: package @left/pad-xyz not found (p.cjs) -> npm install @left/pad-xyz'],
  },
  {
    mistake: 'a context field that nobody writes',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': edit(pluginText, ['options:', "reads: ['acount'],\n  options:"]) },
    answers: ['networks/arb.yaml:12:5: p reads `acount`, which no earlier plugin writes -> did you mean `account`?'],
  },
  {
    mistake: 'an option of the wrong type',
    network: [['  - params', '  - use: ../p.js\n    with: { calls: five }\n  - params']],
    files: { 'p.js': pluginText },
    answers: ['networks/arb.yaml:13:20: p.calls must be an integer, at least 1, not "five"'],
  },
  {
    mistake: 'options without with',
    network: [['  - params', '  - use: ../p.js\n    calls: 5\n  - params']],
    files: { 'p.js': pluginText },
    answers: ['networks/arb.yaml:13:5: unknown key `calls` -> known keys: use, with, name, timeout'],
  },
  {
    mistake: 'a file as the name of a plugin',
    network: [['  - params', '  - ../p.js: {}\n  - params']],
    files: { 'p.js': pluginText },
    answers: ['networks/arb.yaml:12:5: unknown plugin `../p.js` -> write `- use: ../p.js`'],
  },
  {
    mistake: 'a plugin in CommonJS',
    network: [['  - params', '  - use: ../p.cjs\n  - params']],
    files: { 'p.cjs': "module.exports.plugin = { name: 'p' }\n" },
    answers: [
      'networks/arb.yaml:12:10: ../p.cjs has no plugin as its default export -> module.exports = { name, summary, options, create }',
    ],
  },
  {
    mistake: 'an unknown keyword of JSON Schema',
    network: [['  - params', '  - use: ../p.js\n  - params']],
    files: { 'p.js': edit(pluginText, ['minimum', 'minimun']) },
    answers: ['networks/arb.yaml:12:10: the options schema of ../p.js is invalid: unknown keyword `minimun`; did you mean `minimum`?'],
  },
  {
    mistake: 'a path with a tilde',
    network: [['  - params: {}', '  - params: {}\n  - use: ~/p.js']],
    answers: [
      'networks/arb.yaml:13:10: file ~/p.js not found -> only a shell replaces ~: write an absolute path, or one relative to this file',
    ],
  },
  {
    mistake: 'a URL as a plugin',
    network: [['  - params: {}', '  - params: {}\n  - use: https://plugins.test/p.js']],
    answers: [
      'networks/arb.yaml:13:10: https://plugins.test/**** is a URL -> a plugin is loaded from a file or a package: save it as a file',
    ],
  },
]
