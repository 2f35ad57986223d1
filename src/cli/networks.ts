import { join } from 'node:path'
import { displayPath } from '../config/config-files.ts'
import { isKebabCase, parseDuration } from '../config/formats.ts'
import { normalizeHost } from '../util/host-name.ts'
import { networkNames } from '../config/load.ts'
import { existsSync } from 'node:fs'
import { configArgument, configOption, readArguments, readList, runSubcommand, commonOptions } from './args.ts'
import type { Subcommand } from './args.ts'
import { wellKnownChains } from '../config/chains.ts'
import type { Chain } from '../config/chains.ts'
import { UsageError, commandSummaries, exitCodes, programName } from './command.ts'
import type { Command, CommandOption } from './command.ts'
import { networkText, shippedSupportFiles, urlVariable, writeNewFiles } from './config-template.ts'
import { formatTable } from './table-output.ts'

const addOptions = {
  name: { type: 'string', placeholder: 'NAME', description: 'The name of the network; that of the list if absent.' },
  'block-time': { type: 'string', placeholder: 'TIME', description: 'The usual time between two blocks; that of the list if absent.' },
  hosts: { type: 'string', placeholder: 'A,B', description: 'The hosts that callers use; NAME.localhost if absent.' },
  url: {
    type: 'string',
    placeholder: 'URL',
    description: 'The URL of the upstream, for one without a secret; a variable of the file holds it if absent.',
  },
  config: configOption,
} as const satisfies Readonly<Record<string, CommandOption>>

/** Writes the files of networks. */
export const networksCommand: Command = {
  name: 'networks',
  summary: commandSummaries.networks,
  usage: [
    'networks add CHAIN_ID [--name NAME] [--block-time TIME] [--hosts A,B] [--url URL] [--config DIR]',
    'networks list [--json] [--config DIR]',
  ],
  positionals: { CHAIN_ID: 'The chain id (EIP-155), such as 8453.' },
  options: { ...addOptions, ...commonOptions },
  examples: {
    'networks add 8453': 'Base: writes configs/networks/base-mainnet.yaml',
    'networks add 12345 --name my-chain --block-time 2s --url http://10.0.0.7:8545': 'a chain that is not in the list',
  },
  run: async (args, terminal) => runSubcommand({ add, list }, args, terminal),
}

const add: Subcommand = async (args, terminal) => {
  const { out } = terminal
  const {
    values: { config: dir, url, hosts, ...values },
    positionals: [chainIdText],
  } = readArguments(args, ['CHAIN_ID'], addOptions)
  const chain = readChain(readChainId(chainIdText), values.name, values['block-time'])
  const network = { ...chain, hosts: readHosts(hosts) ?? [`${chain.name}.localhost`], ...(url !== undefined && { url: readUrl(url) }) }
  const path = `networks/${chain.name}.yaml`
  const missing = Object.entries(shippedSupportFiles()).filter(([file]) => !existsSync(join(dir, file)))
  const files = { [path]: networkText(network), ...Object.fromEntries(missing) }
  writeNewFiles(dir, files)
  for (const file of Object.keys(files)) out(`wrote ${displayPath(join(dir, file))}`)
  if (url !== undefined) out('a running gateway of this configuration serves it at once, unless `watch` is false')
  else {
    out(`set ${urlVariable(chain.name)} to the URL of a node, then run: ${programName(terminal)} check --online${configArgument(dir)}`)
    out('a running gateway sees the variable after a restart')
  }
  return exitCodes.ok
}

const list: Subcommand = async (args, { out, styleOut }) => {
  const { config: dir, json } = readArguments(args, [], commonOptions).values
  const configured = new Set(networkNames(dir))
  const chains = wellKnownChains.map(chain => ({ ...chain, configured: configured.has(chain.name) }))
  const rows = chains.map(chain => [
    ...[String(chain.chainId), chain.name, chain.currency ?? '', chain.blockTime],
    chain.configured ? 'yes' : '',
  ])
  const titles = ['CHAIN ID', 'NAME', 'CURRENCY', 'BLOCK TIME', 'CONFIGURED']
  for (const line of json ? [JSON.stringify(chains)] : formatTable(titles, rows, styleOut)) out(line)
  return exitCodes.ok
}

const readChainId = (text: string): number => {
  const chainId = /^(\d+|0x[\da-f]+)$/i.test(text) ? Number(text) : NaN
  if (!Number.isSafeInteger(chainId) || chainId < 1) throw new UsageError(`CHAIN_ID must be a number such as 8453, not "${text}"`)
  return chainId
}

const readChain = (chainId: number, name: string | undefined, blockTime: string | undefined): Chain => {
  const known = wellKnownChains.find(chain => chain.chainId === chainId)
  const chain = {
    chainId,
    name: name ?? known?.name,
    currency: known?.currency,
    blockTime: blockTime ?? known?.blockTime,
  }
  if (chain.name === undefined || chain.blockTime === undefined)
    throw new UsageError(`the chain ${chainId} is not in the list (tollgate networks list): add --name and --block-time`)
  if (!isKebabCase(chain.name)) throw new UsageError(`--name must be kebab-case, not "${chain.name}"`)
  if (!parseDuration(chain.blockTime))
    throw new UsageError(`--block-time must be a duration such as 250ms or 12s, not "${chain.blockTime}"`)
  return { ...chain, name: chain.name, blockTime: chain.blockTime }
}

const readHosts = (text: string | undefined): readonly string[] | undefined => {
  const hosts = readList('hosts', text)
  const wrong = hosts?.find(host => normalizeHost(host) === undefined)
  if (wrong !== undefined) throw new UsageError(`--hosts must be host names or IP addresses, without port, not "${wrong}"`)
  return hosts
}

const readUrl = (url: string): string => {
  if (/^https?:\/\//i.test(url) && URL.canParse(url)) return url
  throw new UsageError('--url must begin with http:// or https://')
}
