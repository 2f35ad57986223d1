/** Adds to each position of `sum`, which becomes longer where it has to. */
export const addVector = (sum: number[], added: readonly number[]): void => {
  for (let i = 0; i < added.length; i++) {
    if (i < sum.length) sum[i]! += added[i]!
    else sum.push(added[i]!)
  }
}
