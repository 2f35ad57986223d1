import type { Network } from '../core/network.ts'
import type { MessageHandler } from '../json-rpc/handle-message.ts'
import { refuse } from '../plugin/reply.ts'

/** A network as the RPC listener sees it. Requests and WebSockets hold it, so that a reload changes what their next call runs down. */
export interface NetworkEndpoint extends Pick<Network, 'name' | 'admit'> {
  readonly messageHandler: MessageHandler
  /** A reload has removed the network: its WebSockets close. */
  readonly isRemoved?: boolean
}

/** The networks by the hosts that name them. */
export type EndpointByHost = ReadonlyMap<string, NetworkEndpoint>

/** What the endpoints of all networks handle messages with. */
type HandlerBase = Omit<MessageHandler, 'run'>

/** What a reload replaces. */
type Pipeline = Pick<Network, 'admit' | 'run'>

type ServedNetwork = Pipeline & Pick<Network, 'name' | 'hosts'>

/**
 * The networks of the RPC listener. A reload replaces the pipeline behind an endpoint: each call, of an open WebSocket too, runs down the
 * pipeline that its network has when the call begins.
 */
export class ReloadableEndpoints {
  readonly #handlerBase: HandlerBase
  #byName: ReadonlyMap<string, ReloadableEndpoint> = new Map()
  readonly #byHost = new Map<string, ReloadableEndpoint>()

  constructor(networks: readonly ServedNetwork[], handlerBase: HandlerBase) {
    this.#handlerBase = handlerBase
    this.replace(networks)
  }

  /** The same map after a reload. */
  get byHost(): EndpointByHost {
    return this.#byHost
  }

  /** The networks from now on. What still comes to a removed one is refused. */
  replace(networks: readonly ServedNetwork[]): void {
    const previous = this.#byName
    this.#byName = new Map(networks.map(network => [network.name, this.#endpointOf(network)]))
    this.#byHost.clear()
    for (const { name, hosts } of networks) for (const host of hosts) this.#byHost.set(host, this.#byName.get(name)!)
    for (const [name, endpoint] of previous) if (!this.#byName.has(name)) endpoint.remove()
  }

  #endpointOf(network: ServedNetwork): ReloadableEndpoint {
    const endpoint = this.#byName.get(network.name)
    if (endpoint === undefined) return new ReloadableEndpoint(network, this.#handlerBase)
    endpoint.use(network)
    return endpoint
  }
}

class ReloadableEndpoint implements NetworkEndpoint {
  readonly name: string
  readonly messageHandler: HandlerBase & { run: MessageHandler['run'] }
  admit: Network['admit']
  isRemoved = false

  constructor({ name, admit, run }: ServedNetwork, handlerBase: HandlerBase) {
    this.name = name
    this.admit = admit
    this.messageHandler = { ...handlerBase, run }
  }

  use({ admit, run }: Pipeline): void {
    this.admit = admit
    this.messageHandler.run = run
  }

  remove(): void {
    this.isRemoved = true
    this.use(removedNetwork)
  }
}

const noLongerServed = refuse('notFound', { message: 'not found: this network is no longer served' })

/** A request that was on its way when the network was removed. */
const removedNetwork: Pipeline = {
  admit: () => noLongerServed,
  run: () => Promise.resolve(noLongerServed),
}
