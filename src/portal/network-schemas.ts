import { networkStates, nodeConditions } from '../server/network-status.ts'
import { count, object, time } from './response-schemas.ts'

// What developers and operators are both told of networks and nodes.

export const networkStateSchema = {
  type: 'string',
  enum: networkStates,
  description:
    'The first that holds. `down`: no node is usable, calls fail or go to the partner. `stalled`: nodes answer, and there has been no new block for 60 s, or for 20 times the block time. `degraded`: some nodes that no operator has drained are not usable. `unknown`: nobody has looked at the nodes lately, as no calls come in. `ok`: none of these.',
}

export const nodeConditionSchema = {
  type: 'string',
  enum: nodeConditions,
  description:
    '`drained`: by an operator. `notUsable`: see `because` and `reasons`. `reduced`: it gets fewer calls, or none of some classes of methods. `unknown`: no gateway answers.',
}

export const lastHeadSchema = {
  oneOf: [
    object({
      number: count,
      since: { ...time, description: 'When it was seen first.' },
      checkedAt: { ...time, description: 'When nodes were last asked for the newest block, and answered.' },
    }),
    { type: 'null' },
  ],
  description: 'The newest block that was seen, also while no node answers.',
}
