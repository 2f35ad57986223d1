/** Waits for real sockets. Fails after 10 s. */
export const waitUntil = async (condition: () => boolean | Promise<boolean>): Promise<void> => {
  for (let attemptsLeft = 5000; !(await condition()); attemptsLeft--) {
    if (attemptsLeft === 0) throw new Error(`did not happen within 10 s: ${condition}`)
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}
