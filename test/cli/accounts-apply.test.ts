import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { accountsCommand, changesCommand, createTestConfigs, keysCommand } from './run-command.ts'
import type { CommandResult } from './run-command.ts'

const setUp = async (t: Test) => {
  const configs = await createTestConfigs(t)
  const root = dirname(configs.dir)
  const file = join(root, 'accounts.yaml')
  const write = async (name: string, text: string) => {
    await mkdir(dirname(join(root, name)), { recursive: true })
    await writeFile(join(root, name), text)
    return join(root, name)
  }
  /** Without the folder, which differs each time. */
  const withoutRoot = ({ code, out, err }: CommandResult) => ({
    code,
    out: out.map(line => line.replaceAll(`${root}/`, '')),
    err: err.map(line => line.replaceAll(`${root}/`, '')),
  })
  const run = async (...args: string[]) => withoutRoot(await configs.run(accountsCommand, ...args))
  const apply = async (text: string, ...args: string[]) => {
    await writeFile(file, text)
    return run('apply', file, ...args)
  }
  return { ...configs, root, write, command: run, apply }
}

const acme = `accounts:
  acme:
    plan: core
    credits: 5000
    label: customer 7
    people:
      maria: { role: owner, email: Maria@acme.example }
      dan: { role: developer }
`

t.test('accounts are added and changed as the file says, and a second apply changes nothing', async t => {
  const { apply, json } = await setUp(t)
  const added = [
    ...['+ acme', '    plan core', '    credits 5000', '    label "customer 7"'],
    ...['    + dan: role developer', '    + maria: role owner, email maria@acme.example'],
  ]
  t.same(await apply(acme, '--dry-run'), {
    code: 2,
    out: [...added, 'accounts that would be applied: 1 added, 0 changed, 0 removed'],
    err: [],
  })
  t.same(await json(accountsCommand, 'list'), [], 'a dry run changes nothing')
  t.same(await apply(acme), { code: 0, out: [...added, 'accounts applied: 1 added, 0 changed, 0 removed'], err: [] })
  t.same(await apply(acme), { code: 0, out: ['nothing to change: 1 account as declared'], err: [] })
  t.equal((await apply(acme, '--dry-run')).code, 0)
  const changed =
    'accounts:\n  acme: { plan: growth, suspended: true, people: { maria: { role: owner }, dan: { role: viewer, email: d@b.cd } } }\n'
  t.same((await apply(changed)).out, [
    ...['~ acme', '    plan core -> growth', '    credits 5000 -> plan', '    label "customer 7" -> none', '    suspended no -> yes'],
    '    ~ dan: role developer -> viewer, email none -> d@b.cd',
    'accounts applied: 0 added, 1 changed, 0 removed',
  ])
  t.match(await json(accountsCommand, 'show', 'acme'), { plan: 'growth', credits: null, label: null, suspended: /^20/ })
})

t.test('--json prints the same difference, a field with its values before and after', async t => {
  const { apply } = await setUp(t)
  const read = async (...args: Parameters<typeof apply>) => JSON.parse((await apply(...args)).out.join('')) as object
  const plan = { from: null, to: 'core' }
  t.same(await read('accounts: { acme: { plan: core, people: { dan: { role: owner } } } }', '--json', '--dry-run'), {
    isDryRun: true,
    changes: [
      { account: 'acme', change: 'added', fields: { plan } },
      { account: 'acme', person: 'dan', change: 'added', fields: { role: { from: null, to: 'owner' } } },
    ],
    kept: [],
    deleted: [],
  })
  await apply('accounts: { acme: { plan: core }, bolt: { plan: core } }')
  t.same(await read('accounts: { acme: { plan: core, label: "7" } }', '--json'), {
    isDryRun: false,
    changes: [{ account: 'acme', change: 'changed', fields: { label: { from: null, to: '7' } } }],
    kept: [{ account: 'bolt' }],
    deleted: [],
  })
})

t.test('each change is in the log of changes, as those of the other commands are', async t => {
  const { apply, json } = await setUp(t)
  await apply(acme)
  await apply(acme.replace('role: developer', 'role: viewer').replace('plan: core', 'plan: growth'))
  await apply(acme.replace(/ +dan.*\n/, ''), '--prune')
  await apply('accounts: { bolt: { plan: core } }', '--prune')
  const changes = (await json(changesCommand, '--from', '2020-01-01')) as readonly { readonly action: string }[]
  const by = { kind: 'command', name: /^.+@.+$/ }
  const sorted = changes.toSorted((a, b) => (a.action < b.action ? -1 : 1))
  t.match(sorted, [
    { by, action: 'account-added' },
    { by, action: 'account-added' },
    { by, action: 'account-changed' },
    { by, action: 'account-changed' },
    { by, action: 'account-changed' },
    { by, action: 'person-added' },
    { by, action: 'person-added' },
    { by, action: 'person-changed' },
    { by, action: 'person-changed' },
    { by, action: 'person-removed', before: { name: 'dan', role: 'viewer' } },
  ])
  t.equal(sorted.length, 10)
  t.match(changes, { 0: { account: { name: 'acme' }, after: { plan: 'core', credits: 5_000, label: 'customer 7' } } })
  t.notMatch(JSON.stringify(changes), 'declared')
})

t.test('problems of all files are reported with line, column and the fix, and nothing is changed', async t => {
  const { command, write, json, root } = await setUp(t)
  await write(
    'team/a.yaml',
    `accounts:
  acme: { plan: cor, credit: 5 }
  bo lt: { plan: core }
  acc_1: { plan: core }
  cyan:
    plan: core
    people:
      dan: { role: member, email: dan@acme.example }
      eve: { role: owner, email: DAN@acme.example }
  delta: { plan: core, people: {} }
`,
  )
  await write('team/b.yaml', 'accounts:\n  acme: { plan: "${PLAN}" }\n')
  await write('team/c.yml', 'accounts: {}\n')
  await write('team/more/d.yaml', 'accounts: {}\n')
  await write('team/e.yaml', 'accounts: {}\n')
  await write('team/f.yaml', '# nothing yet\n')
  await write('team/README.md', 'no file of accounts')
  const { code, out, err } = await command('apply', join(root, 'team'))
  t.same({ code, out }, { code: 78, out: [] })
  const headlines = err.join('\n').match(/^\S+:\d+:\d+: .*$/gm)
  t.same(headlines, [
    'team/a.yaml:2:17: accounts.acme.plan must be one of plans in gateway.yaml: core, growth; not "cor"',
    'team/a.yaml:2:22: unknown key `credit` of accounts.acme',
    'team/a.yaml:3:3: the account name `bo lt` must be 1 to 64 letters, digits or . _ - @, not starting with acc_',
    'team/a.yaml:4:3: the account name `acc_1` must be 1 to 64 letters, digits or . _ - @, not starting with acc_',
    'team/a.yaml:8:20: accounts.cyan.people.dan.role must be one of viewer, developer, owner, not "member"',
    'team/a.yaml:9:34: accounts.cyan.people.eve.email is also the address of accounts.cyan.people.dan',
    'team/a.yaml:10:24: accounts.delta.people must contain at least one person',
    'team/b.yaml:2:3: the account `acme` is also in team/a.yaml',
    'team/b.yaml:2:17: the environment variable PLAN is not set',
    'team/c.yml:1:1: the name of a file of accounts must end with .yaml',
    'team/e.yaml:1:1: accounts must contain at least one account',
    'team/f.yaml:1:1: the file is empty',
    'team/more:1:1: a folder in a folder of accounts is not read',
  ])
  t.match(err.join('\n'), /\^ did you mean `core`\?/)
  t.match(err.join('\n'), /\^ did you mean `credits`\?/)
  t.same(await json(accountsCommand, 'list'), [])
})

t.test('files of a folder are one declaration, and each account of them is applied', async t => {
  const { command, write, root } = await setUp(t)
  await write('team/a.yaml', 'x-small: &small { plan: core, credits: 10 }\naccounts: { acme: *small }\n')
  await write('team/b.yaml', 'accounts: { bolt: { plan: growth } }\n')
  await write('team/.hidden/x.yaml', 'accounts: [')
  t.match(await command('apply', join(root, 'team')), {
    code: 0,
    out: ['+ acme', '    plan core', '    credits 10', '+ bolt', '    plan growth'],
  })
  await rm(join(root, 'team/b.yaml'))
  t.match(await command('apply', join(root, 'team')), { out: [/no longer have bolt: --prune/, 'nothing to change: 1 account as declared'] })
  t.match(await command('apply', join(root, 'nowhere')), { code: 78, err: [/nowhere:1:1: no such file/] })
  t.match(await command('apply', join(root, 'configs/networks/none')), { code: 78 })
})

t.test('--prune removes what earlier files had, as accounts delete does, and a file that has it again resumes it', async t => {
  const { apply, json, run } = await setUp(t)
  await json(accountsCommand, 'add', 'by-hand', '--plan', 'core')
  await apply('accounts: { acme: { plan: core }, bolt: { plan: core } }')
  await json(keysCommand, 'add', 'bolt')
  const removal = '- bolt: its keys are refused at once; removed after 7 days, unless it is resumed before'
  const kept = 'The files no longer have bolt: --prune would remove them.'
  const only = 'accounts: { acme: { plan: core } }'
  t.same((await apply(only)).out, [kept, 'nothing to change: 1 account as declared'])
  t.match(await apply(only, '--prune', '--dry-run'), { code: 2, out: [removal, /0 added, 0 changed, 1 removed$/] })
  t.match(await json(accountsCommand, 'show', 'bolt'), { suspended: null, deleteAt: null })
  t.match(await apply(only, '--prune'), { code: 0, out: [removal, /1 removed$/] })
  t.match(await json(accountsCommand, 'show', 'bolt'), { suspended: /^20/, deleteAt: /^20/ })
  t.equal(((await json(keysCommand, 'list', 'bolt')) as object[]).length, 1)
  t.same((await apply(only, '--prune')).out, ['nothing to change: 1 account as declared'])
  t.match(await json(accountsCommand, 'show', 'by-hand'), { suspended: null })
  t.same((await apply('accounts: { acme: { plan: core }, bolt: { plan: core } }')).out.slice(0, 2), ['~ bolt', '    suspended yes -> no'])
  t.match(await json(accountsCommand, 'show', 'bolt'), { suspended: null, deleteAt: null })
  t.match(await apply(only, '--prune', '--all'), {
    code: 1,
    err: [/^tollgate: 2 accounts and 0 people would be removed: --prune requires --yes/],
  })
  t.match(await apply(only, '--prune', '--all', '--yes'), { code: 0, out: [/^- bolt/, /^- by-hand/, /2 removed$/] })
  t.match(await run(accountsCommand, 'apply', 'x', '--all'), { code: 64, err: ['--all requires --prune'] })
})

t.test('--prune asks for --yes above 5 accounts and people, and where it would remove more accounts than the files have', async t => {
  const { apply, json } = await setUp(t)
  const accounts = (names: readonly string[]) => `accounts: { ${names.map(name => `${name}: { plan: core }`).join(', ')} }`
  const names = Array.from({ length: 12 }, (_, i) => `a${i}`)
  await apply(accounts(names))
  const message = /^tollgate: 6 accounts and 0 people would be removed: --prune requires --yes for this$/
  t.match(await apply(accounts(names.slice(6)), '--prune'), { code: 1, out: [], err: [message] })
  t.match(await apply(accounts(names.slice(6)), '--prune', '--dry-run'), { code: 2, err: [/requires --yes for this$/] })
  t.notMatch(await json(accountsCommand, 'list'), [{ suspended: /^20/ }])
  t.equal((await apply(accounts(names.slice(5)), '--prune')).code, 0)
  t.equal((await apply(accounts(['other', ...names.slice(11)]), '--prune')).code, 1)
  t.equal((await apply(accounts(['other', ...names.slice(11)]), '--prune', '--yes')).code, 0)
  for (const empty of ['', 'accounts:\n', 'accounts: {}\n', '{}\n'])
    t.match(
      await apply(empty, '--prune', '--all', '--yes'),
      { code: 78, err: [/at least one account|is empty|requires `accounts`/] },
      empty,
    )
})

t.test('a suspension or a deletion by hand stays, until the file says that the account is not suspended', async t => {
  const { apply, json } = await setUp(t)
  const plain = 'accounts: { acme: { plan: core } }'
  await apply(plain)
  await json(accountsCommand, 'suspend', 'acme')
  t.match(await apply(plain), { out: ['nothing to change: 1 account as declared'] })
  await json(accountsCommand, 'delete', 'acme')
  const note = /^The account acme was deleted, and is removed at 20\S+Z: `suspended: false` in its file resumes it\.$/
  t.match(await apply(plain), { out: [note, /^nothing/] })
  t.match(await apply(plain.replace('core', 'core, suspended: true')), { out: [note, /^nothing/] })
  t.match(await apply(plain), { out: [note, /^nothing/] })
  t.match(await apply(plain.replace('core', 'core, suspended: false')), {
    out: ['~ acme', '    suspended yes -> no', /deleteAt 20\S+ -> none/, /applied/],
  })
  await apply(plain.replace('core', 'core, suspended: true'))
  t.match(await json(accountsCommand, 'show', 'acme'), { suspended: /^20/ })
  t.match(await apply(plain), { out: ['~ acme', '    suspended yes -> no', /applied/] }, 'what an apply has suspended, it resumes')
})

t.test('an account keeps an owner, and an address belongs to one person: where a file says otherwise, nothing is changed', async t => {
  const { apply, json } = await setUp(t)
  await apply('accounts: { acme: { plan: core, people: { dan: { role: owner, email: dan@a.example } } } }')
  const noOwner = await apply('accounts:\n  acme:\n    plan: growth\n    people: { dan: { role: viewer } }')
  t.match(noOwner, {
    code: 78,
    out: [],
    err: [/^accounts.yaml:4:13: dan is the last owner of the account acme, and would be none any more\n/],
  })
  t.match(await apply('accounts: { acme: { plan: core, people: { eve: { role: viewer } } } }', '--prune'), { code: 78 })
  const stolen = await apply('accounts:\n  bolt:\n    plan: growth\n    people: { eve: { role: owner, email: DAN@a.example } }')
  t.match(stolen, { code: 78, err: [/^accounts.yaml:4:42: somebody else has the address dan@a.example: dan of the account acme\n/] })
  t.match(await json(accountsCommand, 'list'), [{ name: 'acme', plan: 'core' }])
  const moved =
    'accounts: { acme: { plan: core, people: { ann: { role: owner } } }, bolt: { plan: core, people: { dan: { role: owner, email: dan@a.example } } } }'
  t.match(await apply(moved), { code: 78 }, 'without --prune, dan stays in acme')
  t.same((await apply(moved, '--prune')).out, [
    ...['~ acme', '    + ann: role owner', '    - dan', '+ bolt', '    plan core', '    + dan: role owner, email dan@a.example'],
    'accounts applied: 1 added, 1 changed, 0 removed',
  ])
  const swapped = moved
    .replace('{ role: owner } }', '{ role: owner, email: dan@a.example } }')
    .replace('email: dan@a.example } } } }', 'email: d2@a.example } } } }')
  t.match((await apply(swapped)).out, [
    '~ acme',
    '    ~ ann: email none -> dan@a.example',
    '~ bolt',
    '    ~ dan: email dan@a.example -> d2@a.example',
  ])
})

t.test('export prints a file that apply takes without a change, and that has no key', async t => {
  const { apply, command, json, write, root } = await setUp(t)
  t.match(await command('export'), { code: 1, err: ['tollgate: there are no accounts to export'] })
  await apply(acme)
  const { key } = (await json(keysCommand, 'add', 'acme')) as { readonly key: string }
  await json(accountsCommand, 'add', '__proto__', '--plan', 'core', '--label', '${HOME} costs $$5: # 1')
  await json(accountsCommand, 'add', '007', '--plan', 'growth')
  await json(accountsCommand, 'suspend', '007')
  await json(accountsCommand, 'add', 'gone', '--plan', 'core')
  await json(accountsCommand, 'delete', 'gone')
  const { out, err } = await command('export')
  t.match(err, [/^warning: left out, .*: gone$/])
  t.notMatch(out.join('\n'), key.slice(0, 12))
  t.match(JSON.parse((await command('export', '--json')).out.join('')), {
    accounts: { acme: { credits: 5_000 }, '007': { suspended: true } },
  })
  await write('exported.yaml', out.join('\n'))
  t.same(await command('apply', join(root, 'exported.yaml'), '--prune', '--all'), {
    code: 0,
    out: ['nothing to change: 3 accounts as declared'],
    err: [],
  })
  t.match(await json(accountsCommand, 'show', '__proto__'), { label: '${HOME} costs $$5: # 1' })
})

t.test('the shipped example can be applied', async t => {
  const { command, json } = await setUp(t)
  t.match(await command('apply', 'docs/examples/accounts.yaml', '--dry-run'), { code: 2, err: [] })
  t.equal((await command('apply', 'docs/examples/accounts.yaml')).code, 0)
  t.match(await json(accountsCommand, 'list'), [
    { name: 'acme', credits: 5_000_000 },
    { name: 'globex', suspended: /^20/ },
    { name: 'initech' },
  ])
})
