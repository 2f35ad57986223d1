/** `2nd`. */
export const formatOrdinal = (count: number): string => {
  const isTeen = Math.floor(count / 10) % 10 === 1
  return `${count}${(!isTeen && ordinalSuffixes[count % 10]) || 'th'}`
}

const ordinalSuffixes = ['th', 'st', 'nd', 'rd']
