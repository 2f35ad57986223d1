/** The row with the change made: null takes a member away, and one that is not named stays. */
export const applyChange = <Row extends object>(row: Row, change: { readonly [N in keyof Row]?: Row[N] | null | undefined }): Row => {
  const members = Object.entries({ ...row, ...change })
  // What is left of the row's members is of the row's type: only those that may be missing may be null in a change.
  return Object.fromEntries(members.filter(([, value]) => value !== null && value !== undefined)) as Row
}
