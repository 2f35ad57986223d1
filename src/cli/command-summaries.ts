/** One line for each command, apart from the commands: `tollgate help` loads none of them. In the order of the help. */
export const commandSummaries = {
  dev: 'Starts a local Ethereum node and the gateway in front of it, with a key to try.',
  start: 'Serves the networks of a configuration directory.',
  check: 'Reports every problem of a configuration; starts nothing.',
  show: 'Prints the effective configuration: variables replaced, defaults filled in, secrets masked.',
  explain: 'Prints what would happen to a call, plugin by plugin; sends nothing.',
  test: 'Runs the cases of networks/NAME.test.yaml, without nodes, a store or real time.',
  plugins: 'Lists plugins, describes their options, and writes a new plugin with its test.',
  schema: 'Prints the JSON Schema of a kind of file, for YAML editors; with --write, writes all of them.',
  init: 'Writes a commented configuration to start from: gateway.yaml, a method table, and a network for a local node.',
  networks: 'Writes the file of a network, from a list of well-known chains; or lists these.',
  health: 'Asks the running gateway whether it should get traffic: exit code 0 or 1.',
  accounts: 'Adds, lists, changes and suspends accounts, and prints links to sign in to the dashboard.',
  keys: 'Adds, lists, changes, rotates, suspends and revokes the API keys of an account.',
  alerts: 'Shows and sets who is told when an account has used a share of its credits, and tries its webhook.',
  changes: 'Lists who changed accounts, keys, people and tokens: by commands and in the dashboard.',
  usage: "Shows an account's credits of today, or its calls by method, network and other fields; exports the calls of all accounts.",
  audit: 'Verifies that leased credits and counted calls of every account agree for today.',
  store: 'Copies a store into another, from LMDB to Redis or back; backs up an embedded store; or repairs the day of a store.',
  top: 'Shows calls, cache and credits of a running gateway, and the state of its nodes.',
} as const

export type CommandName = keyof typeof commandSummaries
