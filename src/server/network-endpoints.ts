import type { Network } from '../core/network.ts'
import type { MessageHandler } from '../json-rpc/handle-message.ts'
import { refuse } from '../plugin/reply.ts'
import type { NetworkEndpoint } from './rpc-request.ts'

/** What the endpoints of all networks handle messages with. */
type HandlerBase = Omit<MessageHandler, 'run'>

/**
 * The networks of the RPC listener by their hosts. A reload replaces the pipeline behind an endpoint: each call, of an open
 * WebSocket too, runs down the pipeline that its network has when the call begins.
 */
export class NetworkEndpoints {
  readonly #handlerBase: HandlerBase
  #byName: ReadonlyMap<string, ReplaceableEndpoint> = new Map()
  #byHost: ReadonlyMap<string, ReplaceableEndpoint> = new Map()

  constructor(networks: readonly Network[], handlerBase: HandlerBase) {
    this.#handlerBase = handlerBase
    this.replace(networks)
  }

  get(host: string): NetworkEndpoint | undefined {
    return this.#byHost.get(host)
  }

  /** The networks from now on. What still comes to a removed one is refused. */
  replace(networks: readonly Network[]): void {
    const previous = this.#byName
    this.#byName = new Map(
      networks.map(network => {
        const endpoint = previous.get(network.name)
        endpoint?.use(network)
        return [network.name, endpoint ?? new ReplaceableEndpoint(network, this.#handlerBase)]
      }),
    )
    this.#byHost = new Map(
      networks.flatMap(({ name, hosts }) => {
        const endpoint = this.#byName.get(name)
        return endpoint === undefined ? [] : hosts.map(host => [host, endpoint] as const)
      }),
    )
    for (const [name, endpoint] of previous) if (!this.#byName.has(name)) endpoint.remove()
  }
}

class ReplaceableEndpoint implements NetworkEndpoint {
  readonly name: string
  readonly messageHandler: MessageHandler
  isRemoved = false
  #network: Pick<Network, 'admit' | 'run'>

  constructor(network: Network, handlerBase: HandlerBase) {
    this.name = network.name
    this.#network = network
    this.messageHandler = { ...handlerBase, run: call => this.#network.run(call) }
  }

  admit(origin: Parameters<Network['admit']>[0]): ReturnType<Network['admit']> {
    return this.#network.admit(origin)
  }

  use(network: Network): void {
    this.#network = network
  }

  remove(): void {
    this.isRemoved = true
    this.#network = removedNetwork
  }
}

const noLongerServed = refuse('notFound', { message: 'not found: this network is no longer served' })

/** A request that was on its way when the network was removed. */
const removedNetwork: Pick<Network, 'admit' | 'run'> = {
  admit: () => noLongerServed,
  run: () => Promise.resolve(noLongerServed),
}
