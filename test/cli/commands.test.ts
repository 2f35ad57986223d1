import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { formatFields, formatTable } from '../../src/cli/table-output.ts'
import { formatCommandHelp, formatExamples, formatUsage } from '../../src/cli/command.ts'
import type { Command } from '../../src/cli/command.ts'
import { commandLoaders } from '../../src/cli/commands.ts'
import { createDeployment, mainPath } from '../support/deployment.ts'
import { runCommand } from './run-command.ts'

const commands = await Promise.all(Object.values(commandLoaders).map(load => load()))

void t.test('every command is loaded by its name', async t => {
  t.same(
    commands.map(({ name }) => name),
    Object.keys(commandLoaders),
  )
})

void t.test('the usage of a command names exactly the options and positional arguments that it describes', async t => {
  for (const { name, usage, options, positionals } of commands) {
    const namesOf = (pattern: RegExp) => new Set(usage.flatMap(form => Array.from(form.matchAll(pattern), ([, found = '']) => found)))
    t.same(namesOf(/--([\w-]+)/g), new Set(Object.keys(options)), name)
    t.same(namesOf(/(?<!--[\w-]+) ([A-Z_]+)(?= |$)/g), new Set(Object.keys(positionals)), name)
  }
})

void t.test('the help of a command describes every option and argument in a sentence', async t => {
  for (const command of commands) {
    for (const { description } of Object.values(command.options)) t.match(description, /^[A-Z].*\.$/, command.name)
    for (const description of Object.values(command.positionals)) t.match(description, /^[A-Z].*\.$/, command.name)
    const help = formatCommandHelp(command).join('\n')
    for (const name of Object.keys(command.options)) t.match(help, new RegExp(`^  --${name}\\b.*  [A-Z]`, 'm'), command.name)
  }
})

void t.test('the help of a command ends with two or more examples, of its options and subcommands', async t => {
  for (const command of commands) {
    const { name, usage, options, examples } = command
    const lines = Object.keys(examples)
    t.ok(lines.length >= 2, name)
    for (const line of lines) {
      const words = line.replace(/ [>|] .*/, '').split(' ')
      t.equal(words[0], name, line)
      for (const word of words.filter(each => each.startsWith('--'))) t.ok(Object.hasOwn(options, word.slice(2)), `${line}: ${word}`)
      const arguments_ = words.slice(1).filter((word, i) => !word.startsWith('--') && !takesValue(options, words[i]))
      t.ok(
        usage.some(form => isCallOf(form, arguments_)),
        line,
      )
    }
    t.same(
      formatCommandHelp(command).slice(-lines.length),
      formatExamples(examples).map(line => `  ${line}`),
    )
  }
})

const takesValue = (options: Command['options'], word = ''): boolean => options[word.replace(/^--/, '')]?.type === 'string'

/** Are these the subcommand and the positional arguments of the form? */
const isCallOf = (form: string, words: readonly string[]): boolean => {
  const expected = form
    .replace(/\[[^\]]*\](?:\])?/g, '')
    .replace(/--[\w-]+(?: [A-Z]\S+)?/g, '')
    .trim()
    .split(/ +/)
    .slice(1)
  return expected.length === words.length && expected.every((each, i) => /^[A-Z_]+$/.test(each) || each.split('|').includes(words[i] ?? ''))
}

t.test('completion prints what a shell completes: commands, subcommands and options of the table', async t => {
  const { out } = await runCommand(await commandLoaders.completion(), ['bash'])
  const complete = (...words: readonly string[]) =>
    execFileSync(
      'bash',
      ['-c', `${out.join('\n')}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tollgate; echo "\${COMPREPLY[@]}"`, '-', 'tollgate', ...words],
      {
        encoding: 'utf8',
      },
    ).trim()
  t.equal(complete('ne'), 'networks')
  t.equal(complete('keys', 're'), 'resume revoke')
  t.equal(complete('keys', 'revoke', '--'), '--json --config --help')
  t.equal(complete('check', '--o'), '--online')
  t.equal(complete('completion', ''), 'bash zsh fish --help')
  t.equal(complete('check', '--config', 'conf'), 'configs')
  for (const shell of ['zsh', 'fish'])
    t.match(
      (await runCommand(await commandLoaders.completion(), [shell])).out.join('\n'),
      /keys revoke|from keys; and __fish_seen_subcommand_from revoke/,
    )
  t.match(await runCommand(await commandLoaders.completion(), ['tcsh']), {
    code: 64,
    err: ['the shell must be bash, zsh or fish, not "tcsh"'],
  })
})

void t.test('wrong commands and options are a usage error', async t => {
  const deployment = createDeployment({ networks: {} })
  t.teardown(() => deployment.remove())
  t.match(await deployment.run('nonsense'), {
    code: 64,
    stderr: 'tollgate: unknown command "nonsense"; `tollgate help` lists the commands\n',
  })
  t.match(await deployment.run('chek'), { code: 64, stderr: 'tollgate: unknown command "chek"; did you mean `check`?\n' })
  t.match(await deployment.run('start', '--nonsense'), { code: 64, stderr: /nonsense/ })
  t.match(await deployment.run('start', '--help'), {
    code: 0,
    stdout: /^  tollgate start \[--config DIR\]\n\n  --config DIR  .*configs\.$/m,
  })
})

t.test('the program prints in color where FORCE_COLOR says so, and without escapes into a pipe', async t => {
  for (const [env, place] of [
    [{ FORCE_COLOR: '1' }, /^\u001b\[36m.*testnet.yaml:1:1\u001b\[39m: \u001b\[31m/],
    [{}, /^[^\u001b]*testnet.yaml:1:1: [^\u001b]+$/],
  ] as const) {
    const deployment = createDeployment({ networks: { testnet: '' }, env })
    t.teardown(() => deployment.remove())
    t.match(await deployment.runProgram('check'), { code: 78, stderr: place })
  }
})

t.test(
  'output that a full disk does not take is an error; who reads only its beginning causes none',
  { skip: !existsSync('/dev/full') },
  async t => {
    const deployment = createDeployment({ networks: {} })
    t.teardown(() => deployment.remove())
    const runInto = (target: string, ...args: readonly string[]) => {
      const command = `"${process.execPath}" "${mainPath}" ${args.join(' ')} --config "${deployment.dir}"`
      const { status, stderr } = spawnSync('bash', ['-c', `${command} ${target}; exit \${PIPESTATUS[0]}`], {
        encoding: 'utf8',
        env: { PATH: process.env['PATH'] },
      })
      return { status, stderr }
    }
    await deployment.addAccount('alice')
    for (const args of [
      ['accounts', 'list', '--json'],
      ['accounts', 'export'],
    ])
      t.match(runInto('>/dev/full', ...args), { status: 1, stderr: /^tollgate: the output is not complete: .*no space/m }, args.join(' '))
    // Of its one text the file takes the first 1,024 bytes.
    const file = join(deployment.dir, 'schema.json')
    t.match(runInto(`>"${file}"`, 'schema', 'network'), { status: 0 })
    const limited = spawnSync('bash', ['-c', `ulimit -f 1; "${process.execPath}" "${mainPath}" schema network >"${file}"`], {
      encoding: 'utf8',
    })
    t.match(limited, { status: 1, stderr: /^tollgate: the output is not complete: EFBIG/m })
    t.equal(statSync(file).size, 1_024)
    const { status, stderr } = runInto('| head -c 1 >/dev/null', 'accounts', 'list')
    t.equal(status, 0)
    t.notMatch(stderr, /tollgate:/)
  },
)

t.test('a usage error is followed by the forms of its subcommand, and by where the options are described', async t => {
  const usage = ['keys add ACCOUNT', 'keys list ACCOUNT']
  const end = ['', '`tollgate keys --help` describes the arguments and options.']
  t.same(formatUsage({ name: 'keys', usage }, ['list', '--x']), ['', '  tollgate keys list ACCOUNT', ...end])
  for (const args of [[], ['lst']])
    t.same(formatUsage({ name: 'keys', usage }, args), ['', '  tollgate keys add ACCOUNT', '  tollgate keys list ACCOUNT', ...end])
})

t.test('a table and fields are in color where they may be: titles, and states by what they mean', async t => {
  const style = (meaning: string, text: string) => `<${meaning}>${text}</>`
  const rows = [
    ['a', 'suspended at noon', ''],
    ['long', 'active', 'x'],
    ['b', 'lag: all', ''],
    ['c', 'unheard of', ''],
  ]
  t.same(formatTable(['NAME', 'STATE', 'X'], rows, style), [
    '<title>NAME</>  <title>STATE</>              <title>X</>',
    'a     <warning>suspended at noon</>',
    'long  <ok>active</>             x',
    'b     <warning>lag: all</>',
    'c     unheard of',
  ])
  t.same(formatFields({ id: 'key_1', state: 'revoked at noon' }, style), [
    '<title>id   </>  key_1',
    '<title>state</>  <error>revoked at noon</>',
  ])
})

t.test('a table may have as many rows as an installation has accounts', async t => {
  const rows = Array.from({ length: 200_000 }, (_, i) => [`account-${i}`, 'core'])
  const lines = formatTable(['NAME', 'PLAN'], rows)
  t.equal(lines.length, 200_001)
  t.same(lines.slice(0, 2), ['NAME            PLAN', 'account-0       core'])
})
