"""Runs code in a kernel of JupyterLab, in the Chromium of the first argument; the second one is the URL.
Prints the output of the code, the protocol of the page, and the number of its WebSockets."""

import sys

from playwright.sync_api import sync_playwright

RUN = """async () => {
  await jupyterapp.serviceManager.ready;
  const kernel = await jupyterapp.serviceManager.kernels.startNew({ name: 'python3' });
  const execution = kernel.requestExecute({ code: "print('the sum is', 6 * 7)" });
  let output = '';
  execution.onIOPub = (message) => { output += message.content.text || ''; };
  await execution.done;
  return output.trim();
}"""

with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=sys.argv[1], args=["--no-sandbox"])
    page = browser.new_page(ignore_https_errors=True)
    sockets = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    page.goto(sys.argv[2] + "/lab")
    page.wait_for_function("window.jupyterapp", timeout=120_000)
    output = page.evaluate(RUN)
    protocol = page.evaluate("performance.getEntriesByType('navigation')[0].nextHopProtocol")
    print(output, protocol, sum("/channels" in url for url in sockets))
    browser.close()
