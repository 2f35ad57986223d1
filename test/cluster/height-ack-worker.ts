/** A worker that acknowledges each height, and does nothing else. */
process.on('message', ({ kind, network, height }: { kind: string; network: string; height: number }) => {
  if (kind === 'height') process.send?.({ kind: 'heightAck', network, height })
})
process.send?.({ kind: 'ready', configId: '' })
