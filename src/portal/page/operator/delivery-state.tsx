import type { AccountOverviewJson } from '../../operator/overview-routes.ts'
import { Badge } from '../components/badge.tsx'
import { operatorTexts } from './operator-texts.ts'

type DeliveryJson = Pick<AccountOverviewJson['alerts'][number], 'state' | 'lastStatus'>

/** Whether a message has arrived, and else how the last attempt ended. */
export const DeliveryState = ({ state, lastStatus }: DeliveryJson) => (
  <>
    <Badge tone={state === 'failed' ? 'danger' : state === 'delivered' ? 'ok' : 'neutral'}>
      {operatorTexts.home.deliveryStates[state]}
    </Badge>
    {state !== 'delivered' && lastStatus !== null && <p class="help">{lastStatus}</p>}
  </>
)
