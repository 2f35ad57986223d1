import type { JsonSchema } from '../../config/schema.ts'
import type { Infer, ObjectSchema } from '../../plugin/options-schema.ts'
import type { ReloadControl } from '../../server/admin.ts'
import type { Log, RootLog } from '../../services/log.ts'
import type { OperationServices } from '../operations/operation.ts'
import type { UsageQueries } from '../queries/usage-queries.ts'
import type { NetworkStatus } from '../../server/network-status.ts'
import type { TrafficHistory } from '../../services/traffic/history.ts'
import type { RouteBase } from '../route.ts'
import type { GatewayObserver } from './observe-gateway.ts'
import type { OperatorAuthentication } from './operator-login.ts'

/** What the operator's routes work with. */
export interface OperatorServices extends OperationServices {
  readonly queries: UsageQueries
  /** Before they are needed: their process takes a moment to start. */
  startQueries(): void
  /** The networks with their heads, as of now. */
  networks(): Promise<readonly NetworkStatus[]>
  history(): Promise<TrafficHistory>
  /** What a page has asked for within a second is of one moment. */
  observer(): Promise<Pick<GatewayObserver, 'observe' | 'problems'>>
  /** Undefined where the configuration cannot be read anew. */
  readonly reloader: ReloadControl | undefined
  /** Of all processes of the gateway. */
  readonly logLevel: Pick<RootLog, 'level'>
  /** How the operator who asks has signed in. */
  readonly authentication: OperatorAuthentication
  readonly log: Log
}

interface OperatorRequest<Query, Body> {
  readonly params: Readonly<Record<string, string>>
  readonly query: Query
  readonly body: Body
}

/** One action of the operator, below /api/v1 of the admin listener. */
export interface OperatorRoute<Query extends ObjectSchema = ObjectSchema, Body extends ObjectSchema = ObjectSchema>
  extends RouteBase<Query, Body> {
  readonly response: JsonSchema
  handle(request: OperatorRequest<Infer<Query>, Infer<Body>>, services: OperatorServices): unknown
}

/** Ties the types of query and body to their schemas. */
export const defineOperatorRoute = <const Query extends ObjectSchema, const Body extends ObjectSchema>(
  route: OperatorRoute<Query, Body>,
): OperatorRoute =>
  // The one cast: checkInput() checks what handle() gets.
  route as unknown as OperatorRoute
