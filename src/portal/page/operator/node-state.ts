import type { NodeJson } from '../../operations/node-operations.ts'
import type { Tone } from '../components/badge.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.nodes

/** It gets no calls, or fewer than usual. */
export const needsAttention = ({ usable, drained, reasons }: NodeJson): boolean => usable === false || drained || reasons.length > 0

export const toneOfNode = ({ usable, drained, reasons }: NodeJson): Tone =>
  drained ? 'accent' : usable === false ? 'danger' : reasons.length > 0 ? 'warn' : 'ok'

export const nameClass = (methodClass: string): string => (methodClass === 'all' ? text.allClasses : methodClass)

/** All that keeps calls away, in words. */
export const whyOf = ({ because, reasons }: NodeJson): string =>
  [
    ...(because === null ? [] : [because]),
    ...reasons.map(({ class: methodClass, text: rule }) => `${nameClass(methodClass)}: ${rule}`),
  ].join('; ')
