import type { NetworkJson } from '../../routes/networks.ts'
import type { UsageAnswer } from '../../routes/usage.ts'
import { useRequest } from '../request.ts'

/** Ethereum's main network. */
const mainChainId = 1

type PreferableNetwork = Pick<NetworkJson, 'name' | 'chainId'>

/** Picks the network that is shown until another is chosen; undefined while it is not known. */
export type PickNetwork = <Network extends PreferableNetwork>(networks: readonly Network[] | undefined) => Network | undefined

/** Of an account without calls: that of chain id 1, else the first. */
export const pickUnusedNetwork: PickNetwork = networks => networks?.find(({ chainId }) => chainId === mainChainId) ?? networks?.[0]

/** The most used network, where there is one. */
export const usePreferredNetwork = (): PickNetwork => {
  const usage = useRequest<UsageAnswer>('/usage?range=30d&by=network&series=0', Infinity)
  return networks => {
    const used = usage.data.value?.groups ?? (usage.error.value === undefined ? undefined : [])
    if (networks === undefined || used === undefined) return undefined
    const mostUsed = used.find(({ name }) => networks.some(network => network.name === name))?.name
    return networks.find(({ name }) => name === mostUsed) ?? pickUnusedNetwork(networks)
  }
}
