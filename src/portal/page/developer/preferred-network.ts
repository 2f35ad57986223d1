import type { NetworkJson } from '../../routes/networks.ts'
import type { UsageAnswer } from '../../routes/usage.ts'
import { useRequest } from '../request.ts'

/** Ethereum's main network. */
const mainChainId = 1

type PreferableNetwork = Pick<NetworkJson, 'name' | 'chainId'>

/** Picks the network that is shown until another is chosen: the most used, else that of chain id 1, else the first; undefined while that is not known. */
export const usePreferredNetwork = () => {
  const usage = useRequest<UsageAnswer>('/usage?range=30d&by=network&series=0', Infinity)
  return <Network extends PreferableNetwork>(networks: readonly Network[] | undefined): Network | undefined => {
    const used = usage.data.value?.groups ?? (usage.error.value === undefined ? undefined : [])
    if (networks === undefined || used === undefined) return undefined
    const mostUsed = used.find(({ name }) => networks.some(network => network.name === name))?.name
    return networks.find(({ name }) => name === mostUsed) ?? networks.find(({ chainId }) => chainId === mainChainId) ?? networks[0]
  }
}
