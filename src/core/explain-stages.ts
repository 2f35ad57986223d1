import { Cancellation } from '../plugin/call.ts'
import type { Account, Call, Key } from '../plugin/call.ts'
import type { ExplainedCall, Explanation } from '../plugin/define-plugin.ts'
import type { Services } from '../services/index.ts'
import type { PipelineStage } from './pipeline.ts'

/** A call that is to be explained: what it costs follows from its stages. */
export type CallToExplain = Omit<ExplainedCall, 'credits'>

/** One stage of a call that is explained. */
export interface StageExplanation extends Explanation {
  /** The name of the step. */
  readonly plugin: string
}

/** What becomes of a call at each stage, as far as it passes. */
export const explainStages = (
  stages: readonly PipelineStage[],
  call: CallToExplain,
  { network, priceOf }: Pick<Services, 'priceOf'> & { readonly network: string },
): readonly StageExplanation[] => {
  const explainedCall = { ...call, credits: priceOf(toPricedCall(call, network)) }
  const explained = stages.map(({ step, stage }) => ({
    plugin: step.name,
    ...(stage.explain?.(explainedCall) ?? explainBySummary({ step, stage }, call)),
  }))
  const end = explained.findIndex(({ ends }) => ends !== undefined)
  return end < 0 ? explained : explained.slice(0, end + 1)
}

/** Of a stage that does not explain calls, what it says of its methods is known. */
const explainBySummary = ({ step, stage }: PipelineStage, { method, lookup }: CallToExplain): Explanation => {
  const summary = step.plugin.summary.replace(/\.$/, '')
  const { key, account } = lookup?.kind === 'granted' ? lookup : {}
  const offered = stage.offers?.(method, key && account && { key, account }) ?? true
  if (offered === true) return { text: [summary] }
  return offered === 'answered'
    ? { text: [summary, 'answers the method'], ends: 'answered' }
    : { text: [summary, key === undefined ? 'refuses the method' : 'refuses the method to this caller'], ends: 'refused' }
}

/** A caller who is not known has nothing that a price could depend on. */
const unknownCaller: { readonly key: Key; readonly account: Account } = {
  key: { id: '' },
  account: { id: '', name: '', plan: { name: '', dailyCredits: 0, forwarding: false } },
}

const toPricedCall = ({ method, lookup }: CallToExplain, network: string): Call<'request' | 'key' | 'account'> => {
  const { key, account } = lookup?.kind === 'granted' ? lookup : unknownCaller
  const request = { method, params: [] }
  const caller = { key: undefined, originHeader: undefined, ip: '', requestId: 'explain', headers: {}, state: {} }
  return {
    message: { jsonrpc: '2.0', id: 1, ...request },
    origin: { transport: 'http', network, ...caller, signal: new Cancellation() },
    startedAtMs: 0,
    context: { request, key, account },
  }
}
