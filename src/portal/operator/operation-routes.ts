import type { ObjectSchema } from '../../plugin/options-schema.ts'
import { checkKnown } from '../key-settings.ts'
import { pathMembers } from '../operations/operation.ts'
import type { Operation, OperationServices } from '../operations/operation.ts'
import type { OperatorRoute } from './operator-route.ts'

/** The route of an operation: what its path does not name is the query of a GET, or the body. */
export const operationRoute = (operation: Operation): OperatorRoute => {
  const { method, path, summary, status, operationId, output } = operation
  const rest = withoutMembers(operation.input, pathMembers(operation))
  return {
    method,
    path,
    summary,
    response: output,
    ...(status !== undefined && { status }),
    ...(operationId !== undefined && { operationId }),
    ...(rest && (method === 'get' ? { query: rest } : { body: rest })),
    async handle({ params, query, body }, services) {
      // Checked against the schema of the input: readRequest().
      const input = { ...params, ...query, ...body } as never
      operation.check?.(input, services.clock.now())
      return operation.run(input, services)
    },
  }
}

/** Undefined where nothing is left. */
const withoutMembers = ({ properties = {}, required = [] }: ObjectSchema, names: readonly string[]): ObjectSchema | undefined => {
  const left = Object.entries(properties).filter(([name]) => !names.includes(name))
  if (left.length === 0) return undefined
  return { type: 'object', properties: Object.fromEntries(left), required: required.filter(name => !names.includes(name)) }
}

/** Of each network that the gateway serves, the methods that it offers. */
export type DescribeMethods = () => Promise<ReadonlyMap<string, readonly { readonly name: string }[]>>

/** What operations know of the networks of a gateway. */
export const networksOf = (describeMethods: DescribeMethods): Pick<OperationServices, 'networkNames' | 'checkMethods'> => ({
  networkNames: async () => [...(await describeMethods()).keys()],
  async checkMethods(names) {
    const known = [...(await describeMethods()).values()].flatMap(methods => methods.map(({ name }) => name))
    checkKnown('method', names, known)
  },
})
