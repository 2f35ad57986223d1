import type { Mail } from '../mailer.ts'
import { messageId } from './delivery.ts'
import type { Delivery } from './delivery.ts'

/** The mail of an alert. Its Message-ID is the same for each attempt. */
export const alertMail = (delivery: Delivery, to: string, portalUrl: string): Mail => {
  const { account, plan, period, date, threshold, used, limit, resetAt } = delivery.message.data
  const credits = period === 'day' ? 'daily credits' : 'credits of the month'
  return {
    to,
    messageId: `<${messageId(delivery)}@${new URL(portalUrl).hostname}>`,
    subject: `Tollgate: ${account.name} has used ${threshold} % of its ${credits}`,
    text: [
      `The account ${account.name} (plan ${plan}) has used ${used} of ${limit} credits of ${date} (UTC).`,
      period === 'day' ? `At 100 %, calls are refused until ${resetAt}.` : `The month ends at ${resetAt}.`,
      '',
      `Figures: ${portalUrl}/`,
      `Owners of the account change alerts here: ${portalUrl}/alerts`,
      '',
    ].join('\n'),
  }
}
