//! Checks the limits of all sites and routes.

use rudy_config::{Location, Problem};
use rudy_guard::{LimitCheck, Login};

use crate::config::Config;
use crate::step_settings::StepsTable;

/// Reports the problems of all limits.
pub(crate) fn problems(config: &Config) -> Vec<Problem> {
    let (mut limits, mut problems) = (LimitCheck::default(), Vec::new());
    for (steps, login, location) in places(config) {
        let (rates, concurrency) = (steps.rate_limit.as_ref(), steps.concurrent_requests.as_ref());
        limits.check(rates, concurrency, login, location, &mut problems);
    }
    problems
}

/// The settings of each site, with the logins of all its routes, and of each route.
fn places(config: &Config) -> impl Iterator<Item = (&StepsTable, Login, &Location)> {
    config.sites.iter().flat_map(|site| {
        let login = |route: &StepsTable| route.admission.login(&site.steps.admission);
        let routes =
            site.routes.iter().map(move |route| (&route.steps, login(&route.steps), &route.location));
        let of_all = routes.clone().fold(login(&site.steps), |all, (_, login, _)| all.or(login));
        std::iter::once((&site.steps, of_all, &site.location)).chain(routes)
    })
}
