import { spawnSync } from 'node:child_process'

/** Part of the machine with two links of its own: one to stores, which can be cut, and one for calls. Needs root on Linux. */
export interface NetworkNamespace {
  /** Put before a command, it runs there. */
  readonly command: readonly string[]
  /** The ends of both links, as IPv4 addresses. */
  readonly stores: LinkAddresses
  readonly calls: LinkAddresses
  /** The link to the stores loses all that is sent. Connections stay open, and nobody is told. */
  cut(): void
  heal(): void
  remove(): void
}

interface LinkAddresses {
  readonly here: string
  readonly there: string
}

const ip = (...words: readonly string[]): void => {
  const { status, stderr, error } = spawnSync('ip', words, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`ip ${words.join(' ')}: ${error?.message ?? stderr.trim()}`)
}

let count = 0

/** Addresses are of 198.18.0.0/15, which is for tests of networks (RFC 2544). */
export const createNetworkNamespace = (): NetworkNamespace => {
  const number = (process.pid * 8 + (count += 1)) % 16_384
  const name = `tollgate-${number}`
  const addressesIn = (net: number): LinkAddresses => {
    const at = (host: number) => `198.${net}.${number >> 6}.${(number & 63) * 4 + host}`
    return { here: at(1), there: at(2) }
  }
  const links = { stores: addressesIn(18), calls: addressesIn(19) }
  const endsOf = (link: keyof typeof links) => ({ here: `tg${link[0]}h${number}`, there: `tg${link[0]}t${number}` })
  const inside = (...words: readonly string[]) => ip('-n', name, ...words)
  /** The address stays where the link is down: it is one of the loopback interface. */
  const open = (link: keyof typeof links) => {
    inside('link', 'set', endsOf(link).there, 'up')
    inside('route', 'add', `${links[link].here}/32`, 'dev', endsOf(link).there, 'src', links[link].there)
  }
  const remove = () => {
    process.off('exit', remove)
    spawnSync('ip', ['netns', 'del', name])
  }
  ip('netns', 'add', name)
  process.once('exit', remove)
  try {
    inside('link', 'set', 'lo', 'up')
    for (const link of ['stores', 'calls'] as const) {
      const { here, there } = endsOf(link)
      ip('link', 'add', here, 'type', 'veth', 'peer', 'name', there, 'netns', name)
      ip('addr', 'add', `${links[link].here}/32`, 'dev', here)
      ip('link', 'set', here, 'up')
      ip('route', 'add', `${links[link].there}/32`, 'dev', here, 'src', links[link].here)
      inside('addr', 'add', `${links[link].there}/32`, 'dev', 'lo')
      open(link)
    }
  } catch (error) {
    remove()
    throw error
  }
  return {
    command: ['ip', 'netns', 'exec', name],
    ...links,
    cut: () => inside('link', 'set', endsOf('stores').there, 'down'),
    heal: () => open('stores'),
    remove,
  }
}

/** The reason why there are none; false where a test may have some. */
export const whyNoNamespaces = (): string | false => {
  try {
    createNetworkNamespace().remove()
    return false
  } catch (error) {
    return `this machine allows no network namespaces: ${(error as Error).message}`
  }
}
